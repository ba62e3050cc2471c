"""Models of the zoo as functions to compare: forward, generation with given tokens, training steps.

Several steps are one function with all of them written out, so that the first op that parts is found in whichever step
it is. Weights are drawn in f32 and cast, or read from a file.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from trine.debug.graph import Missing
from trine.models import build, load_config
from trine.models.training import adamw_init



@dataclasses.dataclass
class Subject:
    """function(*args) with names of the leaves of args."""

    function: object
    args: tuple
    names: list


def subject(config, weights=None, dtype="float32", batch=1, seq=16, layers=None, generate=0, train=0, seed=0):
    """Of a configuration: `generate` tokens after the prompt, `train` steps, else one forward pass."""
    model = build(config if isinstance(config, dict) else load_config(config), dtype)
    if layers:
        model = model.with_layers(layers)
    if train and model.family.kind in ("encoder", "decoder") and not model.settings.head:
        model = model.with_head({"encoder": "masked", "decoder": "lm"}[model.family.kind])
    params = loaded(model, weights, seed)
    if generate:
        return generation(model, params, batch, seq, generate, seed)
    if train:
        return training(model, params, batch, seq, train, seed)
    inputs = example(model, "forward", batch, seq, seed)
    return Subject(model.forward, (params, inputs), named(params, inputs))


def loaded(model, weights, seed):
    if weights is None:
        with jax.default_device(jax.devices("cpu")[0]):
            wide = build(model.config).__class__(model.config, "float32", model.settings)
            params = lively(wide.init(jax.random.key(seed)), seed)
    else:
        params = model.load(weights)
    return jax.tree.map(lambda x: np.asarray(x).astype(model.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else np.asarray(x), params)


def lively(params, seed):
    """Biases of zeros and scales of ones get a tenth of noise: what is dropped or swapped would not show otherwise."""
    rng = np.random.default_rng(seed)

    def one(x):
        x = np.asarray(x)
        is_still = x.size > 1 and x.dtype.kind == "f" and (x == x.ravel()[0]).all()
        return (x + 0.1 * rng.normal(size=x.shape)).astype(x.dtype) if is_still else x

    return jax.tree.map(one, params)


def example(model, phase, batch, seq, seed):
    """Inputs of a phase: tokens below the vocabulary's size, pictures and the like of normal numbers."""
    rng = np.random.default_rng(seed)
    words = getattr(model.settings, "vocab", 1000)

    def one(name, shape):
        if name == "at" or not jnp.issubdtype(shape.dtype, jnp.integer):
            return rng.normal(size=shape.shape).astype(shape.dtype) if name != "at" else np.zeros((), shape.dtype)
        if "mask" in name:
            return np.ones(shape.shape, shape.dtype)
        return rng.integers(0, 2 if "type" in name else words, shape.shape).astype(shape.dtype)

    return {name: one(name, shape) for name, shape in model.input_shapes(phase, batch, seq).items()}


def named(params, *others):
    found = jax.tree_util.tree_flatten_with_path(params)[0]
    names = [(jax.tree_util.keystr(path, simple=True, separator="."), "weight") for path, _ in found]
    for n, other in enumerate(others):
        names += [(jax.tree_util.keystr(path, simple=True, separator=".") or f"input {n}", "input") for path, _ in jax.tree_util.tree_flatten_with_path(other)[0]]
    return names


def generation(model, params, batch, prompt, count, seed):
    """Logits after the prompt and after each of `count` - 1 tokens that are given, not chosen: an error does not grow
    into another text."""
    if not model.writes:
        raise Missing(f"{model.family.name} writes no text; --generate is for models that do")
    tokens = example(model, "forward", batch, prompt + count, seed)["tokens"]

    def function(params, tokens):
        out = {}
        with jax.named_scope("step 0"):
            logits, cache = model.prefill(params, {"tokens": tokens[:, :prompt]}, model.empty_cache(batch, prompt + count))
            out["step 0 logits"] = logits
        for i in range(1, count):
            with jax.named_scope(f"step {i}"):
                at = prompt + i - 1
                start = at if model.family.kind != "seq2seq" else i
                logits, cache = model.decode(params, {"tokens": tokens[:, at : at + 1], "at": start}, cache)
                out[f"step {i} logits"] = logits
        return out

    return Subject(function, (params, tokens), named(params, tokens))


def training(model, params, batch, seq, count, seed):
    """Loss and norm of the gradients of each step of AdamW."""
    batches = [example(model, "train", batch, seq, seed + i) for i in range(count)]

    def function(params, batches):
        state, out = adamw_init(params), {}
        for i, inputs in enumerate(batches):
            with jax.named_scope(f"step {i}"):
                (loss, running), grads = model.value_and_grad(params, inputs)
                squares = [jnp.sum(jnp.square(g.astype(jnp.float32))) for g in jax.tree.leaves(grads)]
                out[f"step {i} gradient norm"], out[f"step {i} loss"] = jnp.sqrt(sum(squares)), loss
                from trine.models import training as how

                new, state = how.adamw(grads, state, params, 1e-4)
                params = model.still(new, params, running)
        return out

    return Subject(function, (params, batches), named(params, batches))
