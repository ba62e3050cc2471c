"""Attention of the DeBERTa kind: what a token says and where it stands are looked at apart.

A query looks at the vectors of distances as well as at keys, and a key is looked at by them. Distances are many fewer
than pairs of tokens: products are made per distance, and a row of them is shifted into its place.
"""

import jax
import jax.numpy as jnp
import numpy as np

from trine.models import parameters as p
from trine.models.layers import copied, dense, dense_rows


def parameters(c, attention):
    """attention: the parameters of q, k, v and o."""
    s = c.distances
    own = {} if s.shared else {"pos_k": p.dense(c.width, c.width, s.key_bias, "columns", c.heads)} if "c2p" in s.kinds else {}
    if not s.shared and "p2c" in s.kinds:
        own["pos_q"] = p.dense(c.width, c.width, True, "columns", c.heads)
    return attention | own


def rows_of(s, length):
    """The row of the table for each distance, from length - 1 down to 1 - length."""
    distance = np.arange(length - 1, -length, -1)
    if s.buckets > 0:
        middle = s.buckets // 2
        far = np.where(np.abs(distance) < middle, middle - 1, np.abs(distance))
        log = np.ceil(np.log(far / middle) / np.log((s.furthest - 1) / middle) * (middle - 1)) + middle
        distance = np.where(far <= middle, distance, log * np.sign(distance)).astype(np.int64)
    return np.clip(distance + s.rows // 2, 0, s.rows - 1)


def shifted(by_distance):
    """[..., i, j] from [..., i, L - 1 - i + j]: each row moved to where its distances belong."""
    *lead, length, wide = by_distance.shape
    padded = jnp.pad(by_distance, [(0, 0)] * (len(lead) + 1) + [(0, 1)]).reshape(*lead, -1)
    moved = jax.lax.slice_in_dim(padded, length - 1, length - 1 + length * wide, axis=len(lead))
    return moved.reshape(*lead, length, wide)[..., :length]


@jax.named_scope("attention")
def attention(layer, c, x, mask, table, axis):
    """table: the vectors of distances, [rows, width]."""
    s, x, table = c.distances, copied(x, axis), copied(table, axis)

    def heads(y):
        return y.reshape(*y.shape[:-1], -1, c.head_dim)

    q, k, v = (heads(dense(layer[name], x)) for name in "qkv")
    near = table[rows_of(s, x.shape[1])]
    scale = (c.head_dim * (1 + len(s.kinds))) ** -0.5
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    if "c2p" in s.kinds:
        scores = scores + shifted(jnp.einsum("bqhd,thd->bhqt", q, heads(dense(layer["k" if s.shared else "pos_k"], near))))
    if "p2c" in s.kinds:
        by_key = jnp.einsum("bkhd,thd->bhkt", k, heads(dense(layer["q" if s.shared else "pos_q"], near[::-1])))
        scores = scores + shifted(by_key).swapaxes(-1, -2)
    scores = scores.astype(jnp.float32) * scale
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.float32(-1e9))
    weights = jax.nn.softmax(scores, -1).astype(v.dtype)
    return dense_rows(layer["o"], jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(*x.shape[:2], -1), axis)
