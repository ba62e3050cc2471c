"""`trine profile view --output-format`: one writer each; what is small goes to stdout, what is large into a file."""

import os
import pathlib
import sqlite3
import sys

import numpy as np

from trine import command
from trine.profile import explaining, reading, rows, summing
from trine.text import byte_count, duration


def write(profile, form, path=None) -> int:
    """Writes the profile in a format; says where it went."""
    stem = pathlib.Path(profile.path).with_suffix("")
    if form in ("summary-text", "summary-json", "json"):
        made = text(profile) if form == "summary-text" else reading.to_json(profile.summary() if form == "summary-json" else _json(profile))
        if path:
            pathlib.Path(path).write_text(made + "\n")
        else:
            print(made)
        return command.OK
    writers = {"parquet": (_parquet, f"{stem}_parquet"), "db": (_db, f"{stem}.db"), "perfetto": (_perfetto, f"{stem}.pftrace"),
               "xspace": (_xspace, f"{stem}.xplane.pb"), "kineto": (_kineto, f"{stem}.kineto.json")}  # fmt: skip
    writer, usual = writers[form]
    target = pathlib.Path(path or usual)
    print(f"{writer(profile, target)} → {target}", file=sys.stderr)
    return command.OK


def _tables(profile):
    from trine.profile import tables

    return tables.all_of(profile)


def _json(profile):
    """{summary: […], instruction: […], …}: the tables by their names in lower case, as Neuron's JSON view has them."""
    out = {"version": 1}
    for name, columns in _tables(profile).items():
        values = [v.tolist() if isinstance(v, np.ndarray) else v for v in columns.values()]
        out[name[0].lower() + name[1:]] = [dict(zip(columns, row)) for row in zip(*values)]
    return out


def _parquet(profile, folder):
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, columns in _tables(profile).items():
        table = pyarrow.table({k: pyarrow.array(np.ascontiguousarray(v) if isinstance(v, np.ndarray) else v) for k, v in columns.items()})
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet", compression="zstd")
        count += table.num_rows
    return f"{count:,} rows in {len(list(folder.glob('*.parquet')))} tables"


def _db(profile, path):
    """One SQLite file; written anew."""
    new = path.with_name(path.name + ".part")
    new.unlink(missing_ok=True)
    base, count = sqlite3.connect(new), 0
    with base:
        for name, columns in _tables(profile).items():
            if not columns:
                continue
            base.execute(f'create table "{name}" ({", ".join(chr(34) + c + chr(34) for c in columns)})')
            values = [v.tolist() if isinstance(v, np.ndarray) else v for v in columns.values()]
            done = base.executemany(f'insert into "{name}" values ({", ".join("?" * len(columns))})', zip(*values))
            count += max(0, done.rowcount)
    base.close()
    os.replace(new, path)
    return f"{count:,} rows"


def _perfetto(profile, path):
    from trine.profile import perfetto

    return perfetto.write(profile, path)


def _xspace(profile, path):
    from trine.profile import xspace

    return xspace.write(profile, path)


def _kineto(profile, path):
    from trine.profile import kineto

    return kineto.write(profile, path)


def text(profile) -> str:
    """The summary on a screen: the answer first, what to change, what memory holds."""
    i, s = profile.info, profile.summary()
    first = s["nodes"].get("rank_0", {})
    return "\n".join([*_head(profile, s, first), *_programs(s), *_advised(profile, s), *_memory(profile, first), *_notes(i)])


def _head(profile, s, first):
    i = profile.info
    script = next((w for w in map(str, i["command"]) if w.endswith((".py", ".trn", ".tasm", ".onnx"))), " ".join(map(str, i["command"][:3])) or profile.path)
    devices = max([p["devices"] for p in i["programs"]], default=1)
    cores = f"{len(i['ranks'])} ranks" if len(i["ranks"]) > 1 else "one core" if devices == 1 else f"{devices} cores"
    band = [b / max(first.get("total_time", 1), 1e-12) for b in first.get("band", [1, 1])]
    step, whole = s["step_time"] * 1e9, i["time_ns"]
    shown = f"{s['steps']} steps of {duration(step)}" if s["steps"] else f"{sum(r['runs'] for r in i['ranks']):,} runs, {duration(whole)}"
    unit = step if s["steps"] else whole
    lines = [f"{os.path.basename(script)} on {i['instance']}, {cores} — {shown} on the chip ({duration(unit * band[0])} – {duration(unit * band[1])})"]
    busy = "  ".join(f"{e} {100 * first.get(f'{e}_engine_active_time_percent', 0):.0f} %" for e in rows.ENGINES[:4])
    parts = [f"{busy}  dma {100 * first.get('dma_active_time_percent', 0):.0f} %"]
    per = max(1, s["steps"])
    if first.get("cc_op_active_time"):
        parts.append(f"collectives {duration(first['cc_op_active_time'] * 1e9 / per)}")
    if first.get("wait_time"):
        parts.append(f"waits for other ranks {duration(first['wait_time'] * 1e9 / per)}")
    if gap := explaining.host(profile).get(0, {}).get("gap_per_step_ns"):
        parts.append(f"host gap {duration(gap)} (this machine's)")
    lines.append(f"  {'step' if s['steps'] else 'busy':8}  " + "   ".join(parts))
    lines.append(f"  {'rates':8}  MFU {100 * first.get('mfu_estimated_percent', 0):.1f} %  MBU {100 * first.get('mbu_estimated_percent', 0):.1f} %   "
                 f"launches {first.get('execution_count', 0):,}, {duration(first.get('launch_time', 0) * 1e9)}")  # fmt: skip
    return lines


def _programs(s):
    whole = sum(p["total_ns"] for p in s["programs"]) or 1
    out = []
    for n, p in enumerate(s["programs"][:3]):
        out.append(f"  {'longest' if n == 0 else '':8}  {p['name']:28.28}  {p['runs']:>6,} × {duration(p['each_ns']):>9}   {100 * p['total_ns'] / whole:3.0f} %   bound by {p['bound'] or '–'}")
    return out


def _advised(profile, s):
    out, per = [], max(1, s["steps"])
    for n, a in enumerate(profile.advice()[:3]):
        gain = f"about −{duration(a['gain_ns'] / per)}{' a step' if s['steps'] else ''}{' at best' if a.get('at_best') else ''}"
        out.append(f"  {'first' if n == 0 else '':8}  {n + 1}. {a['where']:40.40}  {a['what']}")
        out.append(f"            {'':3}{a['fix']}: {gain}  (rule {a['rule']})")
    return out


def _memory(profile, first):
    longest = max(profile.info["programs"], key=lambda p: p["total_ns"], default=None)
    if not longest or not longest["report"]:
        return []
    r = longest["report"]
    spill = first["spill_save_bytes"] + first["spill_reload_bytes"]
    return [f"  {'memory':8}  HBM {byte_count(first['hbm_used_bytes'])} of {byte_count(r['hbm_bytes'])} · "
            f"SBUF {first['sbuf_peak_bytes'] / 2**20:.1f} of {r['sbuf_bytes'] / 2**20:.1f} MiB · spill {byte_count(spill)}"]  # fmt: skip


def _served(p):
    """How a run of a server's program is made up."""
    layers = min(p["layers_ns"], p["rest_ns"] / p["runs"])
    shown, added = p["each_ns"] - p["rest_ns"] / p["runs"], p["rest_ns"] / p["runs"] - layers
    further = f", {duration(layers)} further layers like them" if layers else ""
    return f"{duration(p['each_ns'])} the instructions shown are {duration(shown)}{further}, {duration(added)} are launch, host and what the likely time adds"


def _notes(info):
    out = [f"  note      {p['name']}: {p['why_not'].splitlines()[0][:150]}" for p in info["programs"] if p["why_not"]][:3]
    out += [f"  note      {p['name']}: the host computes {p['host_ops'][0][:120]}" for p in info["programs"] if p["host_ops"] and not p["why_not"]][:3]
    out += [f"  note      {p['name']}: of {_served(p)}" for p in info["programs"] if p.get("rest_ns")][:3]
    return out + [f"  note      {p['name']}: its first {p['events']:,} events are kept" for p in info["programs"] if not p["whole"]]


def step_summary(profile) -> float:
    return summing.step_ns(profile)
