"""`trine estimate`: a model's time and cost from its configuration, on one instance or beside others.

src/tools/commands/estimate.cpp has its options; each arrives here as the table has it.
"""

import gc
import json
import os

from trine.command import CHECK_FAILED, OK, OUT_OF_MEMORY, UNSUPPORTED, USAGE, Stop, note

TRAINING = ("nodes", "pp", "dp", "accumulate", "global_batch", "tokens", "zero", "cp", "ep", "chunks", "recompute", "optimizer")
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def names_of(a):
    """The instances asked for, in that order; "all" is every one there is."""
    from trine import _core
    from trine.chosen import chosen_instance

    if not a.compare:
        return [a.instance or chosen_instance() or "trn1.2xlarge"]
    return [i["name"] for i in _core.instances()] if a.compare == "all" else a.compare.split(",")


def chunks_of(a, config):
    """--chunks from Megatron's layers of each."""
    each = a.num_layers_per_virtual_pipeline_stage
    if each is None:
        return
    from trine.estimate import cached

    layers, pp = getattr(cached.build(config, "bfloat16").settings, "layers", 1), a.pp or 1
    if layers % (pp * each):
        raise Stop(USAGE, f"--num-layers-per-virtual-pipeline-stage {each} with {layers} layers in {pp} stages; a divisor of {layers // pp} is expected")
    a.options["chunks"] = layers // (pp * each)


def prepare():
    """JAX, where it is imported, is for tracing alone: nothing runs on it, so NumPy's library needs no threads. Nothing of it is
    garbage, so Python looks for none later."""
    from trine.estimate import cached

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if gc.freeze not in cached.IMPORTED:
        cached.IMPORTED.append(gc.freeze)


def answers(a):
    """One Answer, or TooLarge, for each instance asked for; the phase's default is the model's usual one."""
    prepare()
    from trine import models
    from trine.estimate.answer import ask, estimate_asked, instance_of

    names = names_of(a)
    try:
        for name in names:
            instance_of(name)
        config = models.load_config(a.config)
        config.setdefault("_name_or_path", str(a.config).rsplit("/", 1)[-1].removesuffix(".json"))
        chunks_of(a, config)
        phase = a.phase or default_phase(config)
        if a.new_tokens and phase not in ("prefill", "decode"):
            raise Stop(USAGE, f"--new-tokens with --phase {phase}; tokens are written by prefill and decode")
        how = {"phase": phase, "batch": a.batch, "seq": a.seq, "tp": a.tp, "lnc": a.lnc, "dtype": DTYPES.get(a.dtype),
               "auto_cast": a.auto_cast, "auto_cast_type": a.auto_cast_type, "image": a.image_size,
               "new_tokens": a.new_tokens or 0, "sdk": a.sdk, **of_training(a, phase)}  # fmt: skip
        found, refused = [], None
        if a.search:
            from trine.estimate.search import search

            return [search(config, instance=names[0], **how)]
        for name in names:
            try:
                asked = ask(config, instance=name, **how)
                found.append(asked.too_large() or estimate_asked(asked))
            except models.ConfigError as e:  # of one instance of many: too few cores, say
                refused = e
                if len(names) == 1:
                    raise
                note(f"{name}: {e}")
        if not found:
            raise refused
        return found
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
        given.setdefault("zero", int(a.zero1))
    if a.overlap_grad_reduce:
        given["overlap"] = True
    if a.search and phase != "train":
        raise Stop(USAGE, f"--search with --phase {phase}; it is of --phase train")
    if a.search and a.compare:
        raise Stop(USAGE, "--search with --compare; layouts are searched on one instance type")
    if given and phase != "train":
        raise Stop(USAGE, f"--{next(iter(given)).replace('_', '-')} with --phase {phase}; it is of --phase train")
    if "accumulate" in given and "global_batch" in given:
        raise Stop(USAGE, "--accumulate and --global-batch say the same twice; give one")
    if "optimizer" in given:
        given["optimiser"] = given.pop("optimizer")
    return given


def default_phase(config):
    from trine.models.families import family_of

    return "prefill" if family_of(config).kind in ("decoder", "seeing") else "forward"


def run(a):
    if a.words and a.config:
        raise Stop(USAGE, f"two models: {a.words[0]} and --config {a.config}; one is estimated at a time")
    a.config = a.config or next(iter(a.words), None)
    if not a.config:
        raise Stop(USAGE, "--config is missing: a config.json, a GGUF file or a name such as bert-base")
    from trine.estimate import compare

    try:
        limits = {name: compare.milliseconds(getattr(a, name), f"--{name}") for name in ("p50", "p99") if getattr(a, name)}
    except ValueError as e:
        raise Stop(USAGE, str(e)) from None
    if a.use_distributed_optimizer and a.zero is None and not a.no_zero1:
        a.options["zero"] = 1
    if a.profile:
        from trine.profile import estimated

        every = estimated.written(a.profile, lambda: answers(a), ["trine", "estimate", *a.typed])
    else:
        every = answers(a)
    from trine.estimate.memory import TooLarge
    from trine.estimate.text import picture, text

    large, timed = [f for f in every if isinstance(f, TooLarge)], [f for f in every if not isinstance(f, TooLarge)]
    purchase = compare.PURCHASES.get(a.price)
    found, slow = compare.chosen(timed, sort=a.sort, purchase=purchase, **limits)
    if a.picture and found:
        picture(found, a.picture)
        note(f"picture → {a.picture}")
    if a.json:
        rows = [f.as_dict() for f in [*found, *large]]
        left = {"too_slow": [f.instance for f in slow]} if slow else {}
        print(json.dumps(rows[0] if len(every) == 1 and rows else {"version": 1, "rows": rows, **left}, indent=2))
    else:
        print(text(found, f", {a.auto_cast}→{a.auto_cast_type}" if a.auto_cast != "none" else "", purchase, slow, large))
    if slow and not found:
        return CHECK_FAILED
    return OUT_OF_MEMORY if not any(f.memory["fits"] for f in every) or (len(every) == 1 and large) else OK
