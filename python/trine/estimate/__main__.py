"""`trine estimate`: a model's time and cost from its configuration, on one instance or beside others.

The `trine` command starts this with the Python of the environment. Data goes to stdout, everything else to stderr.
"""

import argparse
import json
import sys

OK, USAGE, UNSUPPORTED, OUT_OF_MEMORY, OUTSIDE, INTERRUPTED = 0, 2, 3, 4, 5, 130


class Stop(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def parser():
    p = argparse.ArgumentParser(prog="trine estimate", add_help=False)
    for name in ("config", "instance", "compare", "picture", "auto-cast", "auto-cast-type", "dtype"):
        p.add_argument(f"--{name}")
    for name in ("batch", "seq", "new-tokens", "tp"):
        p.add_argument(f"--{name}", type=int)
    p.add_argument("--phase", default=None)
    p.add_argument("--json", action="store_true")
    p.error = lambda text: (_ for _ in ()).throw(Stop(USAGE, text))
    return p


def note(text):
    print(text, file=sys.stderr, flush=True)


def asked(words):
    a = parser().parse_args(words)
    if not a.config:
        raise Stop(USAGE, "--config is missing: a config.json, a GGUF file or a name such as bert-base")
    for name in ("batch", "seq", "tp"):
        value = getattr(a, name)
        if value is not None and value < 1:
            raise Stop(USAGE, f"--{name} {value}; expected 1 or more")
    return a


def answers(a):
    """One Answer for each instance asked for, in that order; the phase's default is the model's usual one."""
    import os

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from trine import models
    from trine.estimate.answer import estimate, instance_of
    from trine.nki import machine

    names = a.compare.split(",") if a.compare else [a.instance or machine.chosen_instance() or "trn1.2xlarge"]
    try:
        for name in names:
            instance_of(name)
        config = models.load_config(a.config)
        config.setdefault("_name_or_path", str(a.config).rsplit("/", 1)[-1].removesuffix(".json"))
        out = []
        for name in names:
            note(f"compiling {config['_name_or_path']} for {name}" + (f", tp {a.tp}" if a.tp else ""))
            out.append(
                estimate(
                    config,
                    phase=a.phase or default_phase(config),
                    batch=a.batch or 1,
                    seq=a.seq or 128,
                    instance=name,
                    tp=a.tp or 1,
                    auto_cast=a.auto_cast or "none",
                    auto_cast_type=a.auto_cast_type or "bf16",
                    dtype=a.dtype,
                )
            )
        return out
    except models.ConfigError as e:
        raise Stop(UNSUPPORTED, str(e)) from None
    except ValueError as e:
        raise Stop(USAGE if "no instance" in str(e) else UNSUPPORTED, str(e)) from None


def default_phase(config):
    from trine.models.families import family_of

    return "prefill" if family_of(config).kind == "decoder" else "forward"


# --- text ---


def span(ms):
    """A time with three digits and its unit."""
    for unit, scale in (("s", 1e3), ("ms", 1.0), ("µs", 1e-3)):
        if ms >= scale or unit == "µs":
            value = ms / scale
            return f"{value:.{max(0, 2 - (len(str(int(value))) - 1))}f} {unit}"


def size(n):
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n} B"


def table(found):
    rows = [("instance", "p50 latency", f"{found[0].as_dict()['result']}/s", "bound by", "MFU", "MBU", "$/1M", f"J/{found[0].as_dict()['result']}")]  # fmt: skip
    for answer in found:
        d = answer.as_dict()
        t, cost = d["latency_ms"], d["cost"]
        rents = {r["way"]: r for r in cost["rents"]}
        dollars = next(iter(rents.values()), {}).get("usd_per_million")
        rows.append(
            (
                d["instance"],
                f"{span(t['p50'])} ({span(t['low'])}–{span(t['high'])})",
                f"{d['throughput_per_s']:,.0f}",
                d["bound"],
                f"{d['mfu_pct']:.0f} %",
                f"{d['mbu_pct']:.0f} %",
                "–" if dollars is None else f"{dollars:.3g}",
                f"{cost['wall_joules_per_result']:.3g}",
            )
        )
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(r, widths)).rstrip() for r in rows)


def detail(d):
    t, m = d["latency_ms"], d["memory_bytes_per_core"]
    lines = [
        f"\n{d['instance']}: our program {span(t['achievable'])}; Neuron's likely {span(t['p50'])}"
        f" ({d['calibration']['class']} programs: ×{d['calibration']['factor']:.2f} of device time)",
        f"  device {span(t['device'])} · collectives {span(t['collectives']) if t['collectives'] else 'none'}"
        f" · launch {span(t['launch'])} · host {span(t['host']) if t['host'] else 'not counted'}",
        f"  HBM {size(d['hbm_read_bytes'])} read, {size(d['hbm_write_bytes'])} written",
        f"  {'fits' if m['fits'] else 'does not fit'}: weights {size(m['weights'])}, cache {size(m['cache'])}, activations"
        f" {size(m['activations'])}, scratch {size(m['scratch'])}, of {size(m['room'])} per core",
        f"  {d['copies']} cop{'y' if d['copies'] == 1 else 'ies'} on the instance · compiled in {d['compile_s']:.2f} s",
    ]
    rents = ", ".join(f"{r['way']} {r['usd_per_million']:.3g}" for r in d["cost"]["rents"])
    lines.append(f"  $ per million {d['result']}s: {rents or 'no price known'}")
    return "\n".join(lines)


def text(found, a):
    first = found[0]
    cast = f", {a.auto_cast}→{a.auto_cast_type or 'bf16'}" if a.auto_cast and a.auto_cast != "none" else ""
    head = f"{first.name}, batch {first.batch}, seq {first.seq}, {first.phase}" + (f", tp {first.tp}" if first.tp > 1 else "") + cast
    return "\n".join([head, "", table(found), *(detail(answer.as_dict()) for answer in found)])


def picture(found, path):
    """Latency of each instance as a bar with its band, an SVG."""
    bar, left, wide = 26, 150, 520
    most = max(f.likely_ms * f.band[1] for f in found)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 130}" height="{bar * len(found) + 50}"'
        ' font-family="sans-serif" font-size="13">',
        f'<text x="8" y="20">{found[0].name}, batch {found[0].batch}, seq {found[0].seq}, {found[0].phase}</text>',
    ]
    for i, f in enumerate(found):
        y, x = 34 + bar * i, left + wide * f.likely_ms / most
        low, high = (left + wide * f.likely_ms * b / most for b in f.band)
        parts.append(f'<text x="8" y="{y + 14}">{f.instance}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{x - left:.1f}" height="18" fill="#4477aa"/>')
        parts.append(f'<path d="M{low:.1f} {y + 9}H{high:.1f}" stroke="#222" stroke-width="2"/>')
        parts.append(f'<text x="{max(x, high) + 6:.1f}" y="{y + 14}">{span(f.likely_ms)}</text>')
    with open(path, "w") as out:
        out.write("\n".join([*parts, "</svg>\n"]))


def main(words=None):
    try:
        a = asked(sys.argv[1:] if words is None else words)
        found = answers(a)
        if a.picture:
            picture(found, a.picture)
            note(f"picture → {a.picture}")
        if a.json:
            rows = [f.as_dict() for f in found]
            print(json.dumps(rows[0] if len(rows) == 1 else {"version": 1, "rows": rows}, indent=2))
        else:
            print(text(found, a))
        return OK if all(f.memory["fits"] for f in found) else OUT_OF_MEMORY
    except Stop as e:
        note(f"trine estimate: {e}")
        return e.code
    except OSError as e:
        note(f"trine estimate: {e}")
        return OUTSIDE
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
