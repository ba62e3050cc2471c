"""`trine debug compare`: a model on the virtual chip against a baseline. `trine debug save`: a baseline's tensors into a file."""

import contextlib
import importlib
import json
import os
import sys
from pathlib import Path

from trine import progress
from trine.command import CHECK_FAILED, OK, UNSUPPORTED, USAGE, Stop


def run(asked):
    what, *rest = asked.words or [""]
    if what == "core":
        from trine.watch import core

        return core.run(asked)
    if what not in ("compare", "save") or len(rest) > 1:
        raise Stop(USAGE, f"found {' '.join(asked.words) or 'nothing'}, expected  compare [MODULE:FACTORY],  save MODULE:FACTORY  or  core FILE")
    try:
        return (compared if what == "compare" else saved)(asked, rest[0] if rest else None)
    except (ValueError, NotImplementedError) as e:
        raise Stop(UNSUPPORTED, str(e)) from e


def compared(asked, model):
    if (model is None) == (asked.config is None):
        raise Stop(USAGE, "expected a MODULE:FACTORY or --config NAME, one of the two")
    with progress.stage("comparing"):
        c = of_config(asked) if asked.config else of_factory(asked, model)
    if asked.svg:
        from trine.debug.report import picture

        Path(asked.svg).write_text(picture(c))
    print(json.dumps(c.as_dict(), indent=1, default=float) if asked.json else c)
    return OK if c.passed else CHECK_FAILED


def common(asked):
    maps = {"auto_cast": asked.auto_cast, "tolerance": asked.tolerance, "only": asked.only or "", "chip": asked.chip}
    return {k: v for k, v in maps.items() if v is not None}


def of_config(asked):
    from trine.debug.comparison import compare
    from trine.debug.zoo import subject
    from trine.models.families import ConfigError

    sizes = {"batch": asked.batch, "seq": asked.seq, "layers": asked.layers, "generate": asked.generate or 0, "train": asked.train or 0, "seed": asked.seed}
    try:
        mine = subject(asked.config, asked.weights, asked.dtype, **sizes)
        against = {}
        if asked.baseline and asked.baseline.endswith(".safetensors"):
            against = {"baseline": asked.baseline}
        elif asked.baseline or asked.dtype != "float32":
            theirs = subject(asked.baseline or asked.config, asked.weights, "float32", **sizes)
            against = {"baseline": theirs.function, "baseline_args": theirs.args}
    except ConfigError as e:
        raise Stop(UNSUPPORTED, str(e)) from e
    name = f"{Path(asked.config).stem}, {asked.dtype}" + (f", {asked.generate} steps with given tokens" if asked.generate else f", {asked.train} training steps" if asked.train else "")
    return compare(mine.function, *mine.args, names=mine.names, name=name, **against, **common(asked))


def of_factory(asked, model):
    from trine.debug.comparison import compare

    mine, args, kwargs = made(model, asked.inputs)
    baseline, baseline_args = asked.baseline, None
    if baseline and not baseline.endswith(".safetensors"):
        baseline, baseline_args, _ = made(baseline, asked.inputs)
    if asked.train:
        from trine.debug.training import train_compare

        return train_compare(mine, args, asked.train, baseline, kwargs, tolerance=asked.tolerance, name=model)
    is_torch = hasattr(mine, "named_modules")
    return compare(mine, *args, baseline=baseline, baseline_args=args if is_torch else baseline_args, kwargs=kwargs, name=model, **common(asked))


def made(name, inputs):
    """(model, args, kwargs) of what a factory gives: a model, or a model with its arguments."""
    module, _, factory = name.partition(":")
    if not module or not factory:
        raise Stop(USAGE, f"found {name!r}, expected MODULE:FACTORY such as models.net:build")
    folder, file = os.path.split(module.removesuffix(".py"))
    for place in {os.getcwd(), os.path.abspath(folder)}:
        if place not in sys.path:
            sys.path.insert(0, place)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            given = getattr(importlib.import_module(file), factory)()
    except (ImportError, AttributeError) as e:
        raise Stop(USAGE, f"{name}: {e}") from e
    model, *rest = given if isinstance(given, tuple) else (given,)
    if inputs or not rest:
        from trine.decide.audit.dry_run import read_inputs

        args, kwargs = read_inputs(inputs)
        return model, tuple(map(lively, args)), {k: lively(v) for k, v in kwargs.items()}
    args = rest[0] if isinstance(rest[0], (tuple, list)) else (rest[0],)
    return model, tuple(args), rest[1] if len(rest) > 1 else {}


def lively(tensor):
    """Whole numbers that are not all zero: the first words of any vocabulary."""
    import torch

    if tensor.is_floating_point() or tensor.dtype is torch.bool:
        return tensor
    return torch.randint(0, 32, tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor.dtype)


def saved(asked, model):
    from trine.debug.saved import save

    if model is None or not asked.output:
        raise Stop(USAGE, "expected  save MODULE:FACTORY --output FILE.safetensors")
    made_model, args, kwargs = made(model, asked.inputs)
    if not hasattr(made_model, "named_modules"):
        raise Stop(UNSUPPORTED, f"{model} gives a {type(made_model).__name__}; tensors by name are saved of torch modules")
    names = save(made_model, *args, path=asked.output, kwargs=kwargs, pattern=asked.only or ".*")
    print(f"{asked.output}: {len(names)} tensors")
    return OK
