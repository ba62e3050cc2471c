"""`trine estimate`: a model's time and cost from its configuration, on one instance or beside others.

The `trine` command starts this with the Python of the environment. Data goes to stdout, everything else to stderr.
"""

import argparse
import json
import sys

OK, USAGE, UNSUPPORTED, OUT_OF_MEMORY, OUTSIDE, INTERRUPTED = 0, 2, 3, 4, 5, 130
TRAINING = ("nodes", "pp", "dp", "accumulate", "global-batch")
NUMBERS = ("batch", "seq", "new-tokens", "tp", "lnc", "image-size", *TRAINING)
CASTS = ("none", "matmult", "all")
CAST_TYPES = ("bf16", "f16", "fp16", "tf32", "f8")
DTYPES = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32"}


class Stop(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def parser():
    p = argparse.ArgumentParser(prog="trine estimate", add_help=False)
    for name in ("config", "instance", "compare", "picture", "auto-cast", "auto-cast-type", "dtype", "phase"):
        p.add_argument(f"--{name}")
    for name in NUMBERS:
        p.add_argument(f"--{name}", type=int)
    p.add_argument("--json", action="store_true")
    p.add_argument("--zero1", dest="zero1", action="store_true", default=None)
    p.add_argument("--no-zero1", dest="zero1", action="store_false")
    p.error = lambda text: (_ for _ in ()).throw(Stop(USAGE, text))
    return p


def note(text):
    print(text, file=sys.stderr, flush=True)


def asked(words):
    a = parser().parse_args(words)
    if not a.config:
        raise Stop(USAGE, "--config is missing: a config.json, a GGUF file or a name such as bert-base")
    for name in NUMBERS:
        value = getattr(a, name.replace("-", "_"))
        if value is not None and value < 1:
            raise Stop(USAGE, f"--{name} {value}; expected 1 or more")
    for name, given, known in (("auto-cast", a.auto_cast, CASTS), ("auto-cast-type", a.auto_cast_type, CAST_TYPES)):
        if given is not None and given not in known:
            raise Stop(USAGE, f'--{name} "{given}"; expected {", ".join(known)}')
    if a.dtype:
        a.dtype = DTYPES.get(a.dtype, a.dtype)
        if a.dtype not in DTYPES.values():
            raise Stop(USAGE, f'--dtype "{a.dtype}"; expected {", ".join(DTYPES)}')
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
        phase = a.phase or default_phase(config)
        if phase not in ("prefill", "decode", "train", "forward"):
            raise models.ConfigError(f'no phase "{phase}"; there are prefill, decode, train, forward')
        if a.new_tokens and phase not in ("prefill", "decode"):
            raise Stop(USAGE, f"--new-tokens with --phase {phase}; tokens are written by prefill and decode")
        how = {"phase": phase, "batch": a.batch or 1, "seq": a.seq, "tp": a.tp or 1, "lnc": a.lnc, "dtype": a.dtype,
               "auto_cast": a.auto_cast or "none", "auto_cast_type": a.auto_cast_type or "bf16", "image": a.image_size,
               "new_tokens": a.new_tokens or 0, **of_training(a, phase)}  # fmt: skip
        return [estimate(config, instance=name, **how) for name in names]
    except models.ConfigError as e:
        raise Stop(UNSUPPORTED, str(e)) from None
    except MemoryError as e:  # of the virtual device: the compiler says which value has no room
        raise Stop(OUT_OF_MEMORY, str(e)) from None
    except ValueError as e:
        usage = "no instance" in str(e) or str(e).startswith("--")
        raise Stop(USAGE if usage else UNSUPPORTED, str(e)) from None


def of_training(a, phase):
    """Options that only training has; an error where another phase was given one."""
    given = {n.replace("-", "_"): getattr(a, n.replace("-", "_")) for n in TRAINING} | {"zero1": a.zero1}
    given = {name: value for name, value in given.items() if value is not None}
    if given and phase != "train":
        raise Stop(USAGE, f"--{next(iter(given)).replace('_', '-')} with --phase {phase}; it is of --phase train")
    if "accumulate" in given and "global_batch" in given:
        raise Stop(USAGE, "--accumulate and --global-batch say the same twice; give one")
    return given


def default_phase(config):
    from trine.models.families import family_of

    return "prefill" if family_of(config).kind == "decoder" else "forward"


def main(words=None):
    try:
        a = asked(sys.argv[1:] if words is None else words)
        found = answers(a)
        from trine.estimate.text import picture, text

        if a.picture:
            picture(found, a.picture)
            note(f"picture → {a.picture}")
        if a.json:
            rows = [f.as_dict() for f in found]
            print(json.dumps(rows[0] if len(rows) == 1 else {"version": 1, "rows": rows}, indent=2))
        else:
            print(text(found, f", {a.auto_cast}→{a.auto_cast_type or 'bf16'}" if a.auto_cast and a.auto_cast != "none" else ""))
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
