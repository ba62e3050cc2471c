"""A model of one configuration: its parameters and its pure functions of (parameters, inputs).

Inputs are dictionaries of arrays. Nothing here holds weights: they are what the functions are given. JAX is imported by
what needs it: an estimate whose programs were kept asks for settings alone.
"""

import functools
import importlib
import math
from dataclasses import replace

from trine.models import parameters as p
from trine.models.families import ConfigError, family_of
from trine.models.quantisation import keeps, storage_of
from trine.models.rows import MISFITS

STORED = ("decoder", "seeing")  # kinds whose dense weights may be kept in few bits
MODULES = {"vit": "vision"}  # of a kind, where the module is called otherwise
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}  # of the usual types, which are known without NumPy


class Model:
    def __init__(self, config, dtype="float32", settings=None, checked=False):
        """checked: that the parameters fit together is known, so that neither they nor their type are made before they are
        asked for."""
        self.config = config
        self.family = family_of(config)
        self.settings = settings or self.family.settings(config)
        self.type, self.checked = dtype, checked
        self._found = {}  # what follows from all this and was asked for
        if not checked:
            self.check()
        self.storage = storage_of(config)
        if self.storage and self.family.kind not in STORED:
            raise ConfigError(f"weights of {self.family.name} are kept whole in the zoo; its quantization_config is not read")

    def check(self):
        """An error where the type is none or the configuration does not fit together."""
        return self.dtype, self.tree

    @property
    def dtype(self):
        """NumPy's, which JAX knows some more of."""
        import jax.numpy as jnp

        return self.once("dtype", lambda: jnp.dtype(self.type))

    @property
    def dtype_name(self):
        return self.type if self.type in BYTES else str(self.dtype)

    @property
    def itemsize(self):
        """Bytes of a number of its type."""
        return BYTES.get(self.dtype_name) or self.dtype.itemsize

    @property
    def functions(self):
        """The module of its kind."""
        name = MODULES.get(self.family.kind, self.family.kind)
        return self.once("functions", lambda: importlib.import_module(f"trine.models.{name}"))

    @property
    def tree(self):
        """Its parameters, each as parameters.Parameter."""
        return self.once("tree", self._parameters)

    def _parameters(self):
        try:
            return self.functions.parameters(self.settings)
        except MISFITS as e:
            raise ConfigError(f"the configuration of {self.family.name} does not fit together: {e}") from e

    def __repr__(self):
        return f"<{self.family.name}, {self.parameters_count():,} parameters>"

    def once(self, name, make):
        """make(), or what it gave for the same name."""
        if name not in self._found:
            self._found[name] = make()
        return self._found[name]

    def parameters_count(self):
        """As makers count them: running statistics and the like are not among them."""
        return self.once("count", lambda: sum(int(math.prod(leaf.shape)) for _, leaf in p.leaves(self.tree) if leaf.counted))

    def parameters_size(self, tp=1):
        """(bytes, numbers) of one core of `tp`."""
        import jax

        def sizes():
            found = jax.tree.leaves(self.parameters_shapes(tp))
            counts = [int(math.prod(leaf.shape)) for leaf in found]
            return sum(n * leaf.dtype.itemsize for n, leaf in zip(counts, found, strict=True)), sum(counts)

        return self.once(("size", tp), sizes)

    def with_settings(self, settings):
        """The same with other settings."""
        return Model(self.config, self.type, settings, self.checked)

    def with_head(self, head):
        """The same with another head: of an encoder "masked" or "classes", of a decoder "lm", "" for none."""
        return self.with_settings(replace(self.settings, head=head))

    def unstored(self):
        """The same with its weights kept whole."""
        config = {name: value for name, value in self.config.items() if name != "quantization_config"}
        return Model(config, self.type, self.settings, self.checked)

    def with_layers(self, count):
        """The same with another number of layers; for times, as all of them take the same."""
        return self.once(("layers", count), lambda: self.with_settings(replace(self.settings, layers=count)))

    def with_experts(self, count):
        """The same as a core has it whose experts are so many of all: tokens choose among these, in no groups."""
        s = self.settings
        router = replace(s.router, groups=0, best=0) if s.router.groups else s.router
        return self.with_settings(replace(s, experts=count, chosen=min(s.chosen, count), router=router))

    def with_share(self, share):
        """The same as one core of a pair has it, for times; see Transformer.share."""
        return self.with_settings(replace(self.settings, share=share)) if share else self

    # ---- parameters

    def parameters_shapes(self, tp=1, per_core=True):
        """jax.ShapeDtypeStruct of every parameter: of one core of `tp`, or of all cores' side by side."""
        if not self.storage:
            return p.shapes(self.tree, self.dtype, tp, per_core)
        return p.mapped(self.tree, lambda path, leaf: self._shape(path, leaf, leaf.on_core(tp) if per_core else leaf.over(tp)))

    def _shape(self, path, leaf, shape):
        import jax

        from trine.models import stored

        if not self.is_stored(path, leaf):
            return jax.ShapeDtypeStruct(shape, self.dtype)
        found = stored.shapes_of(self.storage, shape, self.dtype)
        return {name: jax.ShapeDtypeStruct(*given) for name, given in found.items()}

    def is_stored(self, path, leaf):
        """Whether a weight is kept in few bits: dense layers of the blocks are, but for those the configuration names."""
        if not self.storage or path[-1] != "w" or "layers" not in path or "router" in path or len(leaf.shape) < 2:
            return False
        from trine.models.weights import names_of

        names = names_of(self.family.names, self.family.prefix, path)
        return not any(keeps(self.storage, name) for name, _ in names[:1])

    def stored(self, params):
        """Whole parameters as the configuration stores them: the nearest codes."""
        from trine.models import stored

        def as_stored(path, leaf):
            value = functools.reduce(lambda tree, key: tree[key], path, params)
            return stored.store(self.storage, value, self.dtype) if self.is_stored(path, leaf) else value

        return p.mapped(self.tree, as_stored)

    def init(self, key):
        return p.initial(self.tree, key, self.dtype)

    def load(self, path):
        """Parameters from a safetensors file, a folder of them, or a GGUF file; NumPy arrays."""
        if self.storage:
            raise ConfigError(f"a file of weights stored by {self.storage.method} is not read; times and sizes are made of its configuration")
        from trine.models.files import load

        return load(self, path)

    def shardings(self, axis="tp"):
        """A PartitionSpec for every parameter, as `spread` lays it out."""
        specs = p.specs(self.tree, axis)
        if not self.storage:
            return specs
        from jax.sharding import PartitionSpec

        from trine.models import stored

        def spec(path, leaf):
            own = functools.reduce(lambda tree, key: tree[key], path, specs)
            if not self.is_stored(path, leaf):
                return own
            by_output = PartitionSpec(*(None,) * (len(leaf.shape) - 1), axis if leaf.split == len(leaf.shape) - 1 else None)
            return {name: own if name == "codes" else by_output for name in stored.shapes_of(self.storage, leaf.shape, self.dtype)}

        return p.mapped(self.tree, spec)

    def spread(self, params, tp):
        """The parameters as `shardings` cuts them for `tp` cores: key heads repeated, odd sizes filled up with zeros."""
        import jax

        return jax.tree.map(lambda leaf, value: leaf.spread(value, tp), self.tree, params,
                            is_leaf=lambda x: isinstance(x, p.Parameter))  # fmt: skip

    # ---- functions

    @property
    def writes(self):
        """Whether it writes text, token after token: prefill and decode are there."""
        return hasattr(self.functions, "decode") and not (self.family.kind == "decoder" and not self.settings.head)

    def forward(self, params, inputs, axis=None):
        return self.functions.forward(params, self.settings, inputs, axis=axis)

    def loss(self, params, inputs, axis=None):
        return self.functions.loss(params, self.settings, inputs, axis=axis)

    def prefill(self, params, inputs, cache, axis=None, **where):
        return self._cached("prefill")(params, self.settings, inputs, cache, axis=axis, **where)

    def decode(self, params, inputs, cache, axis=None):
        return self._cached("decode")(params, self.settings, inputs, cache, axis=axis)

    def _cached(self, name):
        if not self.writes:
            raise ConfigError(f"{self.family.name} writes no text: it has no {name}; forward and train are there")
        return getattr(self.functions, name)

    def _whole(self, what):
        if self.storage:
            raise ConfigError(f"{what} needs whole weights; the configuration stores them by {self.storage.method} in {self.storage.bits} bits")

    def train_step(self, params, state, inputs, rate=1e-4, axis=None):
        """(parameters, optimiser state, loss) after one step of AdamW."""
        from trine.models import training

        self._whole("training")
        (loss, running), grads = self.value_and_grad(params, inputs, axis)
        new, state = training.adamw(grads, state, params, rate)
        return self.still(new, params, running), state, loss

    def gradients(self, params, before, inputs, axis=None):
        """(sum of the gradients before and these, loss)"""
        import jax

        self._whole("training")
        (loss, _), grads = self.value_and_grad(params, inputs, axis)
        return jax.tree.map(lambda sum, g: sum + g.astype(sum.dtype), before, grads), loss

    def value_and_grad(self, params, inputs, axis=None):
        """((loss, running statistics or None), gradients)"""
        import jax

        def loss_of(params):
            if hasattr(self.functions, "loss_and_statistics"):
                return self.functions.loss_and_statistics(params, self.settings, inputs)
            return self.loss(params, inputs, axis), None

        value, grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        if axis is None:
            return value, grads
        dealt = hasattr(self.functions, "deals") and self.functions.deals(self.settings, inputs, axis)
        return value, self._shared(grads, axis, dealt)

    def _shared(self, grads, axis, dealt=False):
        """Key heads that several cores have copies of get the sum of their gradients, and so does, where tokens are
        dealt out, what every core has alike; what is filled up gets none."""
        import jax
        import jax.numpy as jnp

        cores = jax.lax.axis_size(axis)

        @functools.partial(jax.jit, static_argnums=0)
        def summed(leaf, g):
            slots, mine = leaf.slots(cores)[0], leaf.slots(cores)[0] // cores
            if mine == 1:  # as a product with zeros and ones: no index that is known only later
                each, key = g.shape[leaf.split], jax.lax.axis_index(axis) * leaf.groups // slots
                is_mine = (jnp.arange(leaf.groups * each) // each == key).astype(g.dtype)
                every = jnp.concatenate([g] * leaf.groups, leaf.split)
                every = jax.lax.psum(every * jax.lax.broadcast_in_dim(is_mine, every.shape, (leaf.split,)), axis)
                return jax.lax.dynamic_slice_in_dim(every, key * each, each, leaf.split)
            own = g.reshape(*g.shape[: leaf.split], mine, -1, *g.shape[leaf.split + 1 :])
            keys = (jax.lax.axis_index(axis) * mine + jnp.arange(mine)) * leaf.groups // slots
            put = (slice(None),) * leaf.split + (keys,)
            every = jnp.zeros((*own.shape[: leaf.split], leaf.groups, *own.shape[leaf.split + 1 :]), g.dtype)
            return jax.lax.psum(every.at[put].add(own), axis)[put].reshape(g.shape)

        @functools.partial(jax.jit, static_argnums=0)
        def cleared(leaf, g):
            count = g.shape[leaf.split]
            real = jax.lax.dynamic_slice(jnp.asarray(leaf.filled(cores)), (jax.lax.axis_index(axis) * count,), (count,))
            return jnp.where(jax.lax.broadcast_in_dim(real, g.shape, (leaf.split,)), g, jnp.zeros_like(g))

        def value(path, leaf, g):
            if leaf.split is None:
                by_head = any(getattr(key, "key", "") in ("q_norm", "k_norm") for key in path)  # which see all tokens
                return jax.lax.psum(g, axis) if dealt and not by_head else g
            if leaf.over(cores) == leaf.shape:
                return g
            return summed(leaf, g) if leaf.repeated else cleared(leaf, g)

        return jax.tree_util.tree_map_with_path(value, self.tree, grads, is_leaf=lambda x: isinstance(x, p.Parameter))

    def still(self, new, old, running):
        """The new parameters, but for those that are not trained: they are the batch's, where it moved them."""
        def part(path, leaf):
            return functools.reduce(lambda tree, key: tree[key], path, new if leaf.trained else running or old)

        return p.mapped(self.tree, part)

    # ---- shapes

    def input_shapes(self, phase, batch, seq):
        import jax
        import jax.numpy as jnp

        def struct(shape, dtype):
            return jax.ShapeDtypeStruct(shape, self.dtype if dtype == "float" else jnp.dtype(dtype))

        return {name: struct(*given) for name, given in self.functions.input_shapes(self.settings, phase, batch, seq).items()}

    def cache_shapes(self, batch, length, tp=1):
        import jax

        self._cached("decode")
        shapes = self.functions.cache_shapes(self.settings, batch, length, tp)
        return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, self.dtype), shapes, is_leaf=lambda s: isinstance(s, tuple))

    def empty_cache(self, batch, length):
        import jax
        import jax.numpy as jnp

        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), self.cache_shapes(batch, length))

    def generate(self, params, prompt, count):
        """`count` tokens after prompt[batch, seq], the most likely each time: one compiled loop, cache in place."""
        import jax
        import jax.numpy as jnp

        batch, seq = prompt.shape
        start = 1 if self.family.kind == "seq2seq" else seq
        logits, cache = self.prefill(params, {"tokens": prompt}, self.empty_cache(batch, seq + count))

        def step(carry, i):
            token, cache = carry
            logits, cache = self.decode(params, {"tokens": token[:, None], "at": start + i}, cache)
            return (logits.argmax(-1), cache), token

        _, tokens = jax.lax.scan(step, (logits.argmax(-1), cache), jnp.arange(count))
        return tokens.T
