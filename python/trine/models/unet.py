"""The UNet of Stable Diffusion, NHWC: residual blocks with a time embedding, attention to itself and to a text.

The tree of parameters is spelled as diffusers spells its tensors. Tensor parallelism does not cut it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from trine.models import parameters as p
from trine.models.convolution import conv, doubled, group_norm
from trine.models.layers import ACTIVATIONS, attend, dense, norm


def residual_parameters(inputs, outputs, time):
    tree = {
        "norm1": p.norm(inputs, "layer"), "conv1": p.conv(3, inputs, outputs, True), "time_emb_proj": p.dense(time, outputs),
        "norm2": p.norm(outputs, "layer"), "conv2": p.conv(3, outputs, outputs, True),
    }  # fmt: skip
    return tree | ({"conv_shortcut": p.conv(1, inputs, outputs, True)} if inputs != outputs else {})


def attention_parameters(c, width, depth):
    def to(keys):
        names = {"to_q": p.dense(width, width, False), "to_k": p.dense(keys, width, False), "to_v": p.dense(keys, width, False)}
        return names | {"to_out": [p.dense(width, width)]}

    def block():
        norms = {f"norm{i}": p.norm(width, "layer") for i in (1, 2, 3)}
        net = {"0": {"proj": p.dense(width, 8 * width)}, "2": p.dense(4 * width, width)}
        return norms | {"attn1": to(width), "attn2": to(c.text), "ff": {"net": net}}

    def around():
        return p.dense(width, width) if c.linear else p.conv(1, width, width, True)

    blocks = [block() for _ in range(depth)]
    return {"norm": p.norm(width, "layer"), "proj_in": around(), "proj_out": around(), "transformer_blocks": blocks}


def level_parameters(c, inputs, width, level, attends, time):
    """Residual blocks of the given input widths, each with an attention where the level has them."""
    tree = {"resnets": [residual_parameters(have, width, time) for have in inputs]}
    if attends:
        tree["attentions"] = [attention_parameters(c, width, c.attentions[level]) for _ in inputs]
    return tree


def parameters(c):
    time, levels = 4 * c.widths[0], len(c.widths)
    tree = {
        "conv_in": p.conv(3, c.channels, c.widths[0], True),
        "time_embedding": {"linear_1": p.dense(c.widths[0], time), "linear_2": p.dense(time, time)},
        "down_blocks": [], "up_blocks": [], "conv_norm_out": p.norm(c.widths[0], "layer"),
        "conv_out": p.conv(3, c.widths[0], c.outputs, True),
    }  # fmt: skip
    if c.added:
        tree["add_embedding"] = {"linear_1": p.dense(c.added, time), "linear_2": p.dense(time, time)}
    skips, have = [c.widths[0]], c.widths[0]
    for i, width in enumerate(c.widths):
        level = level_parameters(c, [have] + [width] * (c.depth - 1), width, i, c.down[i], time)
        skips += [width] * c.depth
        if i < levels - 1:
            level["downsamplers"] = [{"conv": p.conv(3, width, width, True)}]
            skips.append(width)
        tree["down_blocks"].append(level)
        have = width
    if c.middle:
        middle = {"resnets": [residual_parameters(have, have, time) for _ in range(2)]}
        tree["mid_block"] = middle | {"attentions": [attention_parameters(c, have, c.attentions[-1])]}
    for i, width in enumerate(reversed(c.widths)):
        inputs = []
        for _ in range(c.depth + 1):
            inputs.append(have + skips.pop())
            have = width
        level = level_parameters(c, inputs, width, levels - 1 - i, c.up[i], time)
        if i < levels - 1:
            level["upsamplers"] = [{"conv": p.conv(3, width, width, True)}]
        tree["up_blocks"].append(level)
    return tree


@functools.partial(jax.jit, static_argnames="c")
@jax.named_scope("residual")
def residual(params, c, x, time):
    act = ACTIVATIONS[c.activation]
    y = conv(params["conv1"], act(group_norm(params["norm1"], x, c.groups, c.eps)))
    y = y + dense(params["time_emb_proj"], act(time))[:, None, None, :]
    y = conv(params["conv2"], act(group_norm(params["norm2"], y, c.groups, c.eps)))
    return y + (conv(params["conv_shortcut"], x) if "conv_shortcut" in params else x)


def look(params, x, at, heads):
    def split(y):
        return y.reshape(*y.shape[:2], heads, -1)

    q, k, v = (split(dense(params[name], y)) for name, y in (("to_q", x), ("to_k", at), ("to_v", at)))
    return dense(params["to_out"][0], attend(q, k, v, None))


@functools.partial(jax.jit, static_argnames=("c", "heads"))
@jax.named_scope("attention")
def attention(params, c, x, text, heads):
    batch, height, width, channels = x.shape

    def around(layer, y):
        return dense(layer, y) if c.linear else conv(layer, y)

    y = around(params["proj_in"], group_norm(params["norm"], x, c.groups, 1e-6)).reshape(batch, height * width, channels)
    for b in params["transformer_blocks"]:
        h = norm(b["norm1"], y, 1e-5)
        y = y + look(b["attn1"], h, h, heads)
        y = y + look(b["attn2"], norm(b["norm2"], y, 1e-5), text, heads)
        h, gate = jnp.split(dense(b["ff"]["net"]["0"]["proj"], norm(b["norm3"], y, 1e-5)), 2, -1)
        y = y + dense(b["ff"]["net"]["2"], h * ACTIVATIONS["gelu"](gate))
    return x + around(params["proj_out"], y.reshape(batch, height, width, channels))


def waves(c, values, width):
    """Sines and cosines of values[...] at `width` / 2 frequencies."""
    half = width // 2
    angle = values[..., None].astype(jnp.float32) * np.exp(-np.log(10000.0) * np.arange(half, dtype=np.float32) / (half - c.shift))
    parts = [jnp.cos(angle), jnp.sin(angle)] if c.flip else [jnp.sin(angle), jnp.cos(angle)]
    return jnp.concatenate(parts, -1)


@jax.named_scope("time")
def time_embedding(params, c, inputs, dtype):
    def two(layer, x):
        return dense(layer["linear_2"], ACTIVATIONS[c.activation](dense(layer["linear_1"], x.astype(dtype))))

    time = two(params["time_embedding"], waves(c, inputs["times"], c.widths[0]))
    if c.added:
        numbers = waves(c, inputs["sizes"], c.added_time).reshape(time.shape[0], -1)
        time = time + two(params["add_embedding"], jnp.concatenate([inputs["pooled"], numbers.astype(dtype)], -1))
    return time


def down(level, c, x, time, text, heads, skipped):
    """One level on the way down; what it leaves for the way up is added to `kept`."""
    for n, r in enumerate(level["resnets"]):
        x = residual(r, c, x, time)
        if "attentions" in level:
            x = attention(level["attentions"][n], c, x, text, heads)
        skipped.append(x)
    if "downsamplers" in level:
        x = conv(level["downsamplers"][0]["conv"], x, 2)
        skipped.append(x)
    return x


def up(level, c, x, time, text, heads, skipped):
    for n, r in enumerate(level["resnets"]):
        x = residual(r, c, jnp.concatenate([x, skipped.pop()], -1), time)
        if "attentions" in level:
            x = attention(level["attentions"][n], c, x, text, heads)
    return conv(level["upsamplers"][0]["conv"], doubled(x)) if "upsamplers" in level else x


def forward(params, c, inputs, axis=None):
    """The noise in inputs["images"][batch, height, width, channels] at ["times"][batch], given ["text"][batch, seq, width].

    XL also takes ["pooled"][batch, width] of the text and ["sizes"][batch, 6].
    """
    x, text = inputs["images"], inputs["text"]
    time = time_embedding(params, c, inputs, x.dtype)
    x = conv(params["conv_in"], x)
    skipped = [x]
    for i, level in enumerate(params["down_blocks"]):
        with jax.named_scope(f"down {i}"):
            x = down(level, c, x, time, text, c.heads[i], skipped)
    if c.middle:
        middle = params["mid_block"]
        with jax.named_scope("middle"):
            x = attention(middle["attentions"][0], c, residual(middle["resnets"][0], c, x, time), text, c.heads[-1])
            x = residual(middle["resnets"][1], c, x, time)
    for i, level in enumerate(params["up_blocks"]):
        with jax.named_scope(f"up {i}"):
            x = up(level, c, x, time, text, c.heads[-1 - i], skipped)
    act = ACTIVATIONS[c.activation]
    return conv(params["conv_out"], act(group_norm(params["conv_norm_out"], x, c.groups, c.eps)))


def loss(params, c, inputs, axis=None):
    """Mean square distance from inputs["noise"]."""
    return jnp.mean(jnp.square(forward(params, c, inputs) - inputs["noise"]).astype(jnp.float32))


def input_shapes(c, phase, batch, seq):
    """`seq` is the length of the text."""
    images = ((batch, c.size, c.size, c.channels), "float")
    inputs = {"images": images, "times": ((batch,), "float32"), "text": ((batch, seq, c.text), "float")}
    if c.added:
        pooled = c.added - 6 * c.added_time
        inputs |= {"pooled": ((batch, pooled), "float"), "sizes": ((batch, 6), "float32")}
    return inputs | ({"noise": ((batch, c.size, c.size, c.outputs), "float")} if phase == "train" else {})
