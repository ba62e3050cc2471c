"""`trine estimate`: a model's time and cost from its configuration, on one instance or beside others.

src/tools/command_estimate.cpp has its options; each arrives here as the table has it.
"""

import json

from trine.command import OK, OUT_OF_MEMORY, UNSUPPORTED, USAGE, Stop, note

TRAINING = ("nodes", "pp", "dp", "accumulate", "global_batch")
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


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
        if a.new_tokens and phase not in ("prefill", "decode"):
            raise Stop(USAGE, f"--new-tokens with --phase {phase}; tokens are written by prefill and decode")
        how = {"phase": phase, "batch": a.batch, "seq": a.seq, "tp": a.tp, "lnc": a.lnc, "dtype": DTYPES.get(a.dtype),
               "auto_cast": a.auto_cast, "auto_cast_type": a.auto_cast_type, "image": a.image_size,
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
    if a.zero1 and a.no_zero1:
        raise Stop(USAGE, "--zero1 and --no-zero1 say the opposite; give one")
    given = {name: getattr(a, name) for name in TRAINING if getattr(a, name) is not None}
    if a.zero1 or a.no_zero1:
        given["zero1"] = a.zero1
    if given and phase != "train":
        raise Stop(USAGE, f"--{next(iter(given)).replace('_', '-')} with --phase {phase}; it is of --phase train")
    if "accumulate" in given and "global_batch" in given:
        raise Stop(USAGE, "--accumulate and --global-batch say the same twice; give one")
    return given


def default_phase(config):
    from trine.models.families import family_of

    return "prefill" if family_of(config).kind == "decoder" else "forward"


def run(a):
    if not a.config:
        raise Stop(USAGE, "--config is missing: a config.json, a GGUF file or a name such as bert-base")
    found = answers(a)
    from trine.estimate.text import picture, text

    if a.picture:
        picture(found, a.picture)
        note(f"picture → {a.picture}")
    if a.json:
        rows = [f.as_dict() for f in found]
        print(json.dumps(rows[0] if len(rows) == 1 else {"version": 1, "rows": rows}, indent=2))
    else:
        print(text(found, f", {a.auto_cast}→{a.auto_cast_type}" if a.auto_cast != "none" else ""))
    return OK if all(f.memory["fits"] for f in found) else OUT_OF_MEMORY
