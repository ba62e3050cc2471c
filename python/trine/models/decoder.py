"""Decoders: LLaMA kinds (RMS norm, rotary positions, SwiGLU) and GPT-2 kinds (layer norm, learned positions, GELU)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trine.models.layers import attend, dense, dense_init, norm, norm_init, rope


@dataclass(frozen=True)
class DecoderConfig:
    vocab: int
    layers: int
    width: int
    heads: int
    ffn: int
    kv_heads: int = 0  # 0: as many as heads
    norm: str = "rms"  # or "layer"
    eps: float = 1e-5
    positions: str = "rope"  # or "learned"
    theta: float = 10000.0
    mlp: str = "swiglu"  # or "gelu"
    bias: bool = False
    tied: bool = True
    context: int = 2048

    @property
    def head_dim(self):
        return self.width // self.heads

    @property
    def groups(self):
        return self.kv_heads or self.heads


def llama_small(vocab=256):
    """About two million parameters: learns a page of text in a minute on two cores."""
    return DecoderConfig(vocab=vocab, layers=4, width=192, heads=6, kv_heads=2, ffn=512, context=256)


def gpt2_small():
    return DecoderConfig(vocab=50257, layers=12, width=768, heads=12, ffn=3072, norm="layer", positions="learned",
                         mlp="gelu", bias=True, context=1024)  # fmt: skip


def init(config, key, dtype=jnp.float32):
    keys = iter(jax.random.split(key, 8 * config.layers + 3))
    c = config

    def linear(inputs, outputs):
        return dense_init(next(keys), inputs, outputs, c.bias, dtype=dtype)

    params = {"tokens": jax.random.normal(next(keys), (c.vocab, c.width)).astype(dtype) * 0.02, "layers": []}
    if c.positions == "learned":
        params["positions"] = jax.random.normal(next(keys), (c.context, c.width)).astype(dtype) * 0.02
    for _ in range(c.layers):
        layer = {
            "norm1": norm_init(c.width, c.norm, dtype),
            "norm2": norm_init(c.width, c.norm, dtype),
            "q": linear(c.width, c.heads * c.head_dim),
            "k": linear(c.width, c.groups * c.head_dim),
            "v": linear(c.width, c.groups * c.head_dim),
            "o": linear(c.heads * c.head_dim, c.width),
            "up": linear(c.width, c.ffn),
            "down": linear(c.ffn, c.width),
        }
        if c.mlp == "swiglu":
            layer["gate"] = linear(c.width, c.ffn)
        params["layers"].append(layer)
    params["norm"] = norm_init(c.width, c.norm, dtype)
    if not c.tied:
        params["head"] = dense_init(next(keys), c.width, c.vocab, False, dtype=dtype)
    return params


def _mlp(layer, x, kind):
    if kind == "swiglu":
        return dense(layer["down"], jax.nn.silu(dense(layer["gate"], x)) * dense(layer["up"], x))
    return dense(layer["down"], jax.nn.gelu(dense(layer["up"], x), approximate=True))


def _block(layer, c, x, positions, mask, cache, at):
    batch, seq, _ = x.shape
    h = norm(layer["norm1"], x, c.eps)
    q = dense(layer["q"], h).reshape(batch, seq, c.heads, c.head_dim)
    k = dense(layer["k"], h).reshape(batch, seq, c.groups, c.head_dim)
    v = dense(layer["v"], h).reshape(batch, seq, c.groups, c.head_dim)
    if c.positions == "rope":
        q, k = rope(q, positions, c.theta), rope(k, positions, c.theta)
    if cache is not None:
        k = jax.lax.dynamic_update_slice(cache["k"], k, (0, at, 0, 0))
        v = jax.lax.dynamic_update_slice(cache["v"], v, (0, at, 0, 0))
        cache = {"k": k, "v": v}
    x = x + dense(layer["o"], attend(q, k, v, mask))
    return x + _mlp(layer, norm(layer["norm2"], x, c.eps), c.mlp), cache


def empty_cache(config, batch, length, dtype=jnp.float32):
    shape = (batch, length, config.groups, config.head_dim)
    return [{"k": jnp.zeros(shape, dtype), "v": jnp.zeros(shape, dtype)} for _ in range(config.layers)]


def forward(params, config, tokens, cache=None, at=0):
    """Logits of tokens[batch, seq]; with a cache, of tokens that stand at position `at` on, and the new cache."""
    c, (batch, seq) = config, tokens.shape
    positions = at + jnp.arange(seq)[None]
    x = params["tokens"][tokens]
    if c.positions == "learned":
        x = x + params["positions"][positions[0]]
    keys = seq if cache is None else cache[0]["k"].shape[1]
    mask = (jnp.arange(keys)[None] <= positions[0][:, None])[None, None]
    new = []
    for i, layer in enumerate(params["layers"]):
        x, kept = _block(layer, c, x, positions, mask, cache[i] if cache is not None else None, at)
        new.append(kept)
    x = norm(params["norm"], x, c.eps)
    logits = x @ params["tokens"].T if c.tied else dense(params["head"], x)
    return logits if cache is None else (logits, new)


def generate(params, config, prompt, count):
    """`count` tokens after prompt[batch, seq], the most likely each time. One compiled loop, cache in place."""
    batch, seq = prompt.shape
    cache = empty_cache(config, batch, seq + count, params["tokens"].dtype)
    logits, cache = forward(params, config, prompt, cache, 0)
    first = logits[:, -1].argmax(-1)

    def step(carry, i):
        token, cache = carry
        logits, cache = forward(params, config, token[:, None], cache, seq + i)
        return (logits[:, -1].argmax(-1), cache), token

    _, tokens = jax.lax.scan(step, (first, cache), jnp.arange(count))
    return tokens.T
