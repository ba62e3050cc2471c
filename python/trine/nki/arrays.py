"""Arrays in and out: NumPy as it is, torch and JAX by what they can do, neither imported unless it is already there.

Abstract arrays (anything with shape and dtype but no data) are accepted where only time is asked for.
"""

import sys

import numpy as np

from trine.nki import dtypes
from trine.nki.trace import error


class ShapeDtype:
    """An array without data: what trine.nki.shape() makes."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtypes.find(dtype) or dtype

    def __repr__(self):
        return f"{self.dtype}{list(self.shape)}"


def is_torch(x):
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach")


def is_jax(x):
    return type(x).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(x, "shape")


def is_jax_tracer(x):
    """An array that stands for one, while jax.jit traces."""
    return is_jax(x) and "Tracer" in type(x).__name__


def is_array(x):
    """Does a kernel see this argument as a tensor?"""
    if isinstance(x, (np.ndarray, ShapeDtype)):
        return True
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.generic, type))


def describe(x, name):
    """(shape, DType) of an array argument."""
    dtype = dtypes.find(x.dtype)
    if dtype is None:
        raise error("NKI006", f"argument {name} of {x.dtype}", "a dtype of the chip: " + ", ".join(dtypes.by_name),
                    f"convert it, for instance {name}.astype(np.float32)")
    shape = tuple(int(n) for n in x.shape)
    if not shape or 0 in shape:
        raise error("NKI006", f"argument {name} of shape {shape}", "at least one dimension and no empty one")
    return shape, dtype


def to_numpy(x, dtype):
    """The data as a NumPy array; None for an array without data."""
    if isinstance(x, np.ndarray):
        return x
    if is_torch(x):
        if x.device.type == "meta":
            return None
        torch = sys.modules["torch"]
        x = x.detach().cpu().contiguous()
        if dtype.numpy is not None and not _is_numpys(dtype.numpy):  # travels as bits
            return x.view({8: torch.uint8, 16: torch.int16}[dtype.bits]).numpy().view(dtype.numpy)
        return x.numpy()
    if is_jax(x) and type(x).__name__ != "ShapeDtypeStruct":
        return np.asarray(x)
    if hasattr(x, "__array__"):
        return np.asarray(x)
    if hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return None


def _is_numpys(dtype):
    """NumPy's own, not one that ml_dtypes adds."""
    return dtype.isbuiltin == 1


def raw(array, dtype):
    """The array as a program takes it: of the tensor's dtype, or its bytes where NumPy has none."""
    array = np.ascontiguousarray(array)
    if dtype.numpy is None or array.dtype != dtype.numpy:
        return array.reshape(-1).view(np.uint8)
    return array


def from_bytes(values, shape, dtype):
    """An output as a NumPy array; packed formats stay integers of their width."""
    if values.dtype == np.uint8 and dtype.numpy is None:
        return values.view(f"uint{dtype.bits}").reshape(shape)
    return values.reshape(shape)


def like_inputs(values, inputs):
    """The results in the framework the arguments came in."""
    if any(is_torch(x) for x in inputs):
        torch = sys.modules["torch"]
        device = next(x.device for x in inputs if is_torch(x))
        if not _is_numpys(values.dtype):
            bits = values.view("uint8" if values.dtype.itemsize == 1 else "int16")
            kind = getattr(torch, str(values.dtype), None)
            return (torch.from_numpy(bits).view(kind) if kind is not None else torch.from_numpy(bits)).to(device)
        return torch.from_numpy(values).to(device)
    if any(is_jax(x) for x in inputs):
        import jax.numpy as jnp

        return jnp.asarray(values)
    return values


def jax_struct(shape, dtype):
    import jax

    return jax.ShapeDtypeStruct(shape, dtype.numpy or np.dtype(f"uint{dtype.bits}"))
