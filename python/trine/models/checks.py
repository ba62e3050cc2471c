"""What a configuration's values may be, whatever the family: numbers where numbers are meant, of sizes that models have.

Values are checked twice: as they are given, by their keys, so that the error names the key; and as the settings that a row
made of them. Needs no JAX.
"""

import dataclasses
import math
import re
import types
import typing

from trine.models.reading import ConfigError, short, silent
from trine.models.settings import Transformer

NUMBER = re.compile(r"(num|n|d|max)_\w+|\w+_(size|sizes|layers|layer|heads|head|dim|dims|positions|embeddings|groups|experts|channels|rank|window|eps"
                    r"|epsilon|theta|depth|depths|width|kernel|conv)|(\w+_)?factor")  # fmt: skip
LARGEST = 1 << 40
LAYERS_MAX = 1 << 14
POSITIVE = ("width", "layers", "heads", "kv_heads", "head_dim")  # of a stack of blocks
BELOW_ZERO = ("shift", "position_offset", "layer")  # the last: counted from the end


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) <= LARGEST


def check_given(values, path=""):
    """An error for a key that is called as numbers are, and is none: all that is silent or null is left alone."""
    for name, value in values.items():
        if not isinstance(name, str) or silent(name, value) or name == "quantization_config":
            continue
        if isinstance(value, dict):
            check_given(value, f"{path}{name}.")
        elif NUMBER.fullmatch(name) and isinstance(value, str) | isinstance(value, int | float) and not isinstance(value, bool) and not is_number(value):
            raise ConfigError(f'"{path}{name}" is {short(value)}; expected a number up to {LARGEST:,}')
        elif name == "vocab_size" and value == 0:
            raise ConfigError(f'"{path}{name}" is 0; expected 1 or more')


def fits(value, kind):
    if kind is int:
        return type(value) is int and abs(value) <= LARGEST
    if kind is float:
        return is_number(value) or value == math.inf
    if isinstance(kind, types.UnionType):
        return any(fits(value, one) for one in typing.get_args(kind))
    return isinstance(value, kind)


def check_made(made, what):
    """An error for settings that no model has."""
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if not fits(value, field.type):
            raise ConfigError(f"the {field.name} of {what} is {short(value)}; expected {kind_text(field.type)}")
        if isinstance(made, Transformer) and field.name in POSITIVE and value < 1:
            raise ConfigError(f"the {field.name} of {what} is {value}; expected 1 or more")
        if isinstance(value, int) and value < 0 and field.name not in BELOW_ZERO:
            raise ConfigError(f"the {field.name} of {what} is {value}; expected 0 or more")
        if field.name == "layers" and value > LAYERS_MAX:
            raise ConfigError(f"{what} has {value:,} layers; at most {LAYERS_MAX:,} are read")
        if dataclasses.is_dataclass(value):
            check_made(value, what)


def kind_text(kind):
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a name", tuple: "a list"}.get(kind, str(kind))
