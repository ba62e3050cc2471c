"""Dense weights kept in fewer bits than they are multiplied in: what is stored, and what a program makes of it.

A stored weight is a dictionary: `codes`, `scale` and, where codes are not symmetric, `zero`. A scale per output is
applied to the product. Scales of groups of inputs are applied to each group's product where tokens are few, so that
no weight is made whole, and to the weight where they are many. Four-bit codes lie two in a byte: the low half of them
belongs to the first half of the inputs, so that neither has to be moved to be read. Activations stay what they are:
this is storage, not arithmetic in few bits.
"""

import jax.numpy as jnp
import ml_dtypes
import numpy as np

# The eight-bit float is the one whose largest value is 240, which all chips that have one read; files with the other's
# codes (up to 448) are as large.
CODES = {"int8": np.int8, "fp8": ml_dtypes.float8_e4m3, "int4": np.uint8, "mxfp4": np.uint8}
LIMITS = {"int8": 127.0, "fp8": 240.0}
PACKED = ("int4", "mxfp4")
FEW = 32  # tokens, up to which the products of groups are scaled; of more they would be larger than the weight


def is_stored(w):
    return isinstance(w, dict)


def shapes_of(storage, shape, dtype):
    """name -> (shape, dtype) of what stands for a weight [..., inputs, outputs]."""
    *lead, inputs, outputs = shape
    packed_shape = (*lead, -(-inputs // 2), outputs) if storage.kind in PACKED else tuple(shape)
    groups = -(-inputs // storage.group) if storage.group else 1
    scales = -(-outputs // storage.across) if storage.across else outputs
    scale = np.uint8 if storage.kind == "mxfp4" else dtype
    found = {"codes": (packed_shape, CODES[storage.kind]), "scale": ((*lead, groups, scales), scale)}
    return found | ({"zero": ((*lead, groups, scales), dtype)} if storage.zero else {})


def halves(codes):
    """Of codes that lie two in a byte: those of the first half of the inputs, those of the second."""
    return [codes & 15, codes >> 4] if codes.dtype == jnp.uint8 else [codes]


def four_bit_float(code, dtype):
    """Of one sign bit, two of exponent and one of mantissa: 0, .5, 1, 1.5, 2, 3, 4, 6 and their negatives. The values are
    the largest of three straight lines."""
    size = (code & 7).astype(dtype)
    value = jnp.maximum(jnp.maximum(size * 0.5, size - 2), 2 * size - 8)
    return jnp.where(code > 7, -value, value)


def power_of_two(scale, dtype):
    """2 ** (scale - 127): the byte is a float's exponent."""
    bits = scale.astype(jnp.uint32) << 23
    return bits.view(jnp.float32).astype(dtype)


def spread(scale, inputs, outputs):
    """scale[..., groups, of outputs] for every input and output."""
    if 1 < scale.shape[-2] < inputs:
        scale = jnp.repeat(scale, -(-inputs // scale.shape[-2]), -2)[..., :inputs, :]
    return jnp.repeat(scale, -(-outputs // scale.shape[-1]), -1)[..., :outputs] if scale.shape[-1] < outputs else scale


def numbers(w, codes, dtype):
    """Codes as numbers, before any scale or zero."""
    return four_bit_float(codes, dtype) if w["scale"].dtype == jnp.uint8 else codes.astype(dtype)


def scales(w, dtype):
    return power_of_two(w["scale"], dtype) if w["scale"].dtype == jnp.uint8 else w["scale"].astype(dtype)


def whole(w, dtype, inputs=None):
    """The weight as it was before it was stored, as near as its bits allow. inputs: how many there are, where that is odd
    and codes lie two in a byte."""
    if not is_stored(w):
        return w
    number = jnp.concatenate([numbers(w, codes, dtype) for codes in halves(w["codes"])], -2)[..., :inputs, :]
    size = number.shape[-2:]
    number = number - spread(w["zero"].astype(dtype), *size) if "zero" in w else number
    return number * spread(scales(w, dtype), *size)


def times(x, w):
    """x @ w"""
    if not is_stored(w):
        return x @ w
    groups, inputs = w["scale"].shape[-2], x.shape[-1]
    packed_in = len(halves(w["codes"]))
    if groups == 1 and packed_in == 1 and w["scale"].shape[-1] == w["codes"].shape[-1] and "zero" not in w:
        return (x @ numbers(w, w["codes"], x.dtype)) * w["scale"][..., 0, :].astype(x.dtype)
    few = np.prod(x.shape[:-1], dtype=int) <= FEW and w["codes"].ndim == 2
    if few and inputs % groups == 0 and groups % packed_in == 0 and inputs % packed_in == 0:
        return by_groups(x, w, packed_in)
    return x @ whole(w, x.dtype, inputs)


def by_groups(x, w, packed_in):
    """x @ w by the products of each group of inputs."""
    groups, outputs = w["scale"].shape[-2] // packed_in, w["codes"].shape[-1]

    def each(name):
        given = (scales(w, jnp.float32) if name == "scale" else w[name].astype(jnp.float32)).reshape(packed_in, groups, -1)
        return spread(given, groups, outputs)

    zero, scale = each("zero") if "zero" in w else None, each("scale")
    y = 0.0
    for half, (part, codes) in enumerate(zip(jnp.split(x, packed_in, -1), halves(w["codes"]), strict=True)):
        part = part.reshape(*part.shape[:-1], groups, -1)
        number = numbers(w, codes, x.dtype).reshape(groups, -1, outputs)
        product = jnp.einsum("...gi,gio->...go", part, number, preferred_element_type=jnp.float32)
        if zero is not None:
            product = product - part.astype(jnp.float32).sum(-1)[..., None] * zero[half]
        y = y + (product * scale[half]).sum(-2)
    return y.astype(x.dtype)


# ---- from whole weights, on the host


def grouped(value, storage):
    """(value[..., groups, inputs of one, scales, outputs of one], its shape before): padded where it does not divide."""
    *lead, inputs, outputs = value.shape
    group, across = storage.group or inputs, storage.across or 1
    pads = [(0, 0)] * len(lead) + [(0, -inputs % group), (0, -outputs % across)]
    full = np.pad(value, pads)
    return full.reshape(*lead, full.shape[-2] // group, group, full.shape[-1] // across, across), (inputs, outputs)


def cut(parts, size):
    *lead, groups, group, scales, across = parts.shape
    return parts.reshape(*lead, groups * group, scales * across)[..., : size[0], : size[1]]


FOUR_BITS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def packed(codes):
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 2) + [(0, codes.shape[-2] % 2), (0, 0)]).astype(np.uint8)
    half = codes.shape[-2] // 2
    return codes[..., :half, :] | codes[..., half:, :] << 4


def store(storage, value, dtype):
    """What stands for a whole weight: the nearest codes, each group's largest value at the end of their range."""
    parts, size = grouped(np.asarray(value, np.float32), storage)
    most = np.abs(parts).max((-3, -1), keepdims=True)
    if storage.kind == "mxfp4":
        exponent = np.clip(np.floor(np.log2(np.maximum(most, 1e-38))) - 2 + 127, 0, 254).astype(np.uint8)
        scaled = parts / np.exp2(exponent.astype(np.float32) - 127)
        nearest = np.abs(np.abs(scaled)[..., None] - FOUR_BITS).argmin(-1).astype(np.uint8)
        return {"codes": packed(cut(nearest | (scaled < 0).astype(np.uint8) << 3, size)), "scale": exponent[..., 0, :, 0]}
    if storage.zero:
        low, high = np.minimum(parts.min((-3, -1), keepdims=True), 0), np.maximum(parts.max((-3, -1), keepdims=True), 0)
        scale = np.maximum(high - low, 1e-12) / 15
        zero = np.round(-low / scale)
        codes = np.clip(np.round(parts / scale) + zero, 0, 15)
        return {"codes": packed(cut(codes, size)), "scale": scale[..., 0, :, 0].astype(dtype), "zero": zero[..., 0, :, 0].astype(dtype)}
    scale = np.maximum(most, 1e-12) / LIMITS[storage.kind]
    codes = cut(parts / scale, size)
    codes = np.round(codes).astype(np.int8) if storage.kind == "int8" else codes.astype(CODES["fp8"])
    return {"codes": codes, "scale": scale[..., 0, :, 0].astype(dtype)}
