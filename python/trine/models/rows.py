"""What a family's row is made of. A value in it is a constant, a `Key` of config.json, or a function of the configuration.

Needs no JAX.
"""

import math
from dataclasses import dataclass, field, replace

from trine.models.checks import check_given, check_made
from trine.models.reading import ConfigError, Reading, refuse_unread
from trine.models.settings import Rope, Transformer

MISSING = object()
MISFITS = (TypeError, ZeroDivisionError, OverflowError, AttributeError, KeyError, IndexError, RecursionError)


class Key:
    """The first of `names` that the configuration has and that is not null, else the default."""

    def __init__(self, *names, default=MISSING):
        self.names, self.default = names, default

    def __call__(self, config):
        found = next((one for one in [config.get(name) for name in self.names] if one is not None), None)  # all count as read
        if found is not None:
            return found
        if self.default is MISSING:
            raise ConfigError(f"a configuration of {config.kind()} needs \"{config.path}{self.names[0]}\"")
        return self.default


def key(name, default):
    return Key(name, default=default)


def values_of(values, config):
    """A row's values as this configuration has them."""
    return {k: v(config) if callable(v) else v for k, v in values.items()}


def transformer_of(config, values):
    values["activation"] = gelu_name(values.get("activation", "gelu"))
    values.setdefault("head", "" if is_bare(config) else "lm")
    return Transformer(**values)


def is_bare(config):
    """Whether the class that wrote the file ends with hidden states, as AutoModel and makers of embeddings have it."""
    kind = (config.get("architectures") or [""])[0]
    return not config.path and kind.endswith("Model") and not kind.endswith("LMHeadModel")


def gelu_name(name):
    """`gelu_pytorch_tanh` and `gelu_new` are one function."""
    return {"gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new", "swish": "silu", "gelu_python": "gelu"}.get(name, name)


@dataclass(frozen=True)
class Family:
    name: str
    kind: str  # the module of its functions; see model.MODULES
    values: dict = field(default_factory=dict)
    names: dict = field(default_factory=dict)  # parameter -> tensor of a safetensors file
    prefix: str = ""  # that some files leave out
    transposed: bool = True  # dense weights are stored [outputs, inputs]
    note: str = ""
    read: object = transformer_of  # (configuration, values) -> settings
    also: tuple = ()  # keys that say again what others say
    fixed: dict = field(default_factory=dict)  # keys of which the zoo has one value alone

    def like(self, name, note="", names=None, prefix=None, also=(), fixed=None, **values):
        return replace(self, name=name, note=note, values=self.values | values, names=self.names | (names or {}),
                       prefix=self.prefix if prefix is None else prefix, also=self.also + also, fixed=self.fixed | (fixed or {}))  # fmt: skip

    def settings(self, config, strict=True):
        """Of a configuration; one with a key that nobody reads is refused where it is read strictly."""
        reading = config if isinstance(config, Reading) else Reading(config)
        check_given(reading.values)
        try:
            made = self.read(reading, values_of(self.values, reading))
            check_made(made, self.name)
        except MISFITS as e:  # of values that each could be, but not together
            raise ConfigError(f"the configuration of {self.name} does not fit together: {e}") from e
        reading.seen |= {"quantization_config", *self.also}  # the first: see quantisation.py
        for name, only in self.fixed.items():
            if (given := reading.get(name, only)) != only and given is not None:
                raise ConfigError(f'"{name}" of {self.name} is {given!r}; the zoo has it with {only!r}')
        if strict:
            refuse_unread(reading, self.name)
        return made


# ---- rotary positions

ROPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")


def stretched(factor, by):
    return 0.1 * by * math.log(factor) + 1.0 if factor > 1 else 1.0


def yarn_attention(given, factor):
    """Factor of sine and cosine, where two others say it together."""
    one, all_dims = given.get("mscale"), given.get("mscale_all_dim")
    return stretched(factor, one) / stretched(factor, all_dims) if one and all_dims else 0.0


def rope_of(config, share=1.0, part=None, theta=10000.0, **more):
    """Both spellings: `rope_parameters`, and `rope_theta` beside `rope_scaling`. part: of a kind of layer, where they are
    given for each."""
    scaling, given = config.part("rope_scaling"), config.part("rope_parameters")
    if part and isinstance(given.get(part), Reading):
        given, scaling = given.part(part), Reading({})

    def of(name, default=None):
        found = [part.get(name) for part in (given, scaling)]
        return next((one for one in found if one is not None), default)

    kind, older = of("rope_type"), of("type")
    kind = kind or older or "default"
    kind = "longrope" if kind == "su" else "default" if kind in ("dynamic", "mrope") else kind
    if kind not in ROPES:
        raise ConfigError(f'rope_type "{kind}" is not known; known are {", ".join(ROPES)}')

    def either(name, *beside):
        """Of the rotary settings, else of what stands beside them; all are asked for, so that none counts as unread."""
        return next((found for found in [of(name), *map(config.get, beside)] if found), None)

    rotated = either("partial_rotary_factor", "partial_rotary_factor", "rotary_pct") or share
    context = config.get("max_position_embeddings") or 0
    original = either("original_max_position_embeddings", "original_max_position_embeddings") or context
    yarn, long = kind == "yarn", kind == "longrope"
    factor = float(of("factor") or (context / original if original else 1.0))
    base = float(either("rope_theta", "rope_theta", "rotary_emb_base") or theta)
    low, high = (of("beta_slow", 1.0), of("beta_fast", 32.0)) if yarn else (of("low_freq_factor", 1.0), of("high_freq_factor", 4.0))
    read = dict(
        theta=base,
        share=float(rotated),
        kind=kind,
        factor=factor,
        original=int(original),
        low=float(low),
        high=float(high),
        short=tuple(of("short_factor") or ()),
        long=tuple(of("long_factor") or ()),
        attention=float(of("attention_factor") or (of("short_mscale") if long else yarn and yarn_attention(given if given.values else scaling,
        factor)) or 0.0),
        attention_long=float(of("long_mscale") or 0.0) if long else 0.0,
        whole=of("truncate") is False,
    )
    return Rope(**(read | more))


def window_of(config):
    return config.get("sliding_window") or 0


def layer_types(config, usual):
    """The kind of each layer: as the configuration lists them, else usual(i)."""
    count = config["num_hidden_layers"]
    given = config.get("layer_types")
    if given and len(given) != count:
        raise ConfigError(f"layer_types has {len(given)} entries; num_hidden_layers is {count}")
    return given or [usual(i) for i in range(count)]


def forms_of(types, forms):
    """What differs in each layer, by its kind: {kind: {name: value}}."""
    for kind in types:
        if kind not in forms:
            raise ConfigError(f'a layer of kind "{kind}"; known here are {", ".join(forms)}')
    made = tuple(tuple(sorted(forms[kind].items())) for kind in types)
    return made if any(made) else ()


def sliding(usual, **full):
    """Forms of layers of which some see a window, as `layer_types` or usual(config, i) says; full: of the others."""
    def made(config):
        types = layer_types(config, lambda i: usual(config, i))
        return forms_of(types, {"sliding_attention": {"window": window_of(config)}, "full_attention": values_of(full, config)})

    return made
