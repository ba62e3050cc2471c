"""Which virtual chip a kernel is for, and its numbers: target names, tile sizes, core versions."""

import contextlib
import contextvars
import functools
import os

from trine import _core
from trine.chosen import chosen_instance
from trine.nki.errors import NkiError

DEFAULT_INSTANCE = "trn1.2xlarge"
FIRST_GENERATION = 2  # NeuronCore-v2: NKI's first
SIMULATOR_CHIP = "trn3"  # what nki.simulate assumes when nothing is chosen

# NKI's target names -> our chip files
TARGETS = {
    "trn1": "trn1", "inf2": "inf2", "gen2": "trn1",
    "trn2": "trn2", "gen3": "trn2",
    "trn3": "trn3", "gen4": "trn3",
}  # fmt: skip


@functools.lru_cache(maxsize=None)
def chip(name: str) -> dict:
    return _core.chip(name)


@functools.lru_cache(maxsize=None)
def instance(name: str) -> dict:
    return _core.instance(name)


@functools.lru_cache(maxsize=1)
def rows() -> dict:
    return {row["name"]: row for row in _core.rows()}


_asked = contextvars.ContextVar("asked", default=None)


@contextlib.contextmanager
def asked_for(chip: str):
    """Kernels are traced for this chip inside, where nothing says another."""
    before = _asked.set(chip)
    try:
        yield
    finally:
        _asked.reset(before)


def target_chip(target: str | None, where=("", 0), simulate=False) -> str:
    """The chip for a platform_target argument, or by environment, chosen instance and default, in that order."""
    name = target or os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
    if name:
        if name.lower() in TARGETS:
            return TARGETS[name.lower()]
        raise NkiError("NKI003", f"target \"{name}\"", "one of " + ", ".join(TARGETS), file=where[0], line=where[1])
    if (asked := _asked.get()) is not None:
        return asked
    chosen = chosen_instance()
    if chosen is None and (simulate or os.environ.get("NKI_SIMULATOR") == "1"):
        return SIMULATOR_CHIP
    return instance(chosen or DEFAULT_INSTANCE)["chip"]


def instance_of_chip(name: str) -> str:
    """The chosen instance when it has that chip, else the smallest one that does."""
    chosen = chosen_instance() or DEFAULT_INSTANCE
    if instance(chosen)["chip"] == name:
        return chosen
    fitting = [i for i in _core.instances() if i["chip"] == name]
    return min(fitting, key=lambda i: i["chips"])["name"]
