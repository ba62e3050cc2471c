"""Encoders of the BERT kind: post-norm blocks, learned positions, erf GELU."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trine.models.layers import attend, dense, dense_init, norm, norm_init


@dataclass(frozen=True)
class EncoderConfig:
    vocab: int
    layers: int
    width: int
    heads: int
    ffn: int
    eps: float = 1e-12
    context: int = 512
    types: int = 2  # kinds of token


def bert_base():
    return EncoderConfig(vocab=30522, layers=12, width=768, heads=12, ffn=3072)


def bert_tiny():
    return EncoderConfig(vocab=1000, layers=2, width=128, heads=2, ffn=512, context=128)


def init(config, key, dtype=jnp.float32):
    c = config
    keys = iter(jax.random.split(key, 6 * c.layers + 3))

    def table(rows):
        return jax.random.normal(next(keys), (rows, c.width)).astype(dtype) * 0.02

    def linear(inputs, outputs):
        return dense_init(next(keys), inputs, outputs, dtype=dtype)

    return {
        "tokens": table(c.vocab),
        "positions": table(c.context),
        "types": table(c.types),
        "norm": norm_init(c.width, "layer", dtype),
        "layers": [
            {
                "q": linear(c.width, c.width),
                "k": linear(c.width, c.width),
                "v": linear(c.width, c.width),
                "o": linear(c.width, c.width),
                "up": linear(c.width, c.ffn),
                "down": linear(c.ffn, c.width),
                "norm1": norm_init(c.width, "layer", dtype),
                "norm2": norm_init(c.width, "layer", dtype),
            }
            for _ in range(c.layers)
        ],
    }


def forward(params, config, tokens, mask=None, types=None):
    """Hidden states of tokens[batch, seq]; mask[batch, seq] is True where there is a token."""
    c, (batch, seq) = config, tokens.shape
    x = params["tokens"][tokens] + params["positions"][:seq] + params["types"][0 if types is None else types]
    x = norm(params["norm"], x, c.eps)
    seen = None if mask is None else mask[:, None, None, :]

    def heads(y):
        return y.reshape(batch, seq, c.heads, c.width // c.heads)

    for layer in params["layers"]:
        q, k, v = (heads(dense(layer[n], x)) for n in ("q", "k", "v"))
        x = norm(layer["norm1"], x + dense(layer["o"], attend(q, k, v, seen)), c.eps)
        h = jax.nn.gelu(dense(layer["up"], x), approximate=False)
        x = norm(layer["norm2"], x + dense(layer["down"], h), c.eps)
    return x
