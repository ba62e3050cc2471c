"""How fast kernels become answers: tracing and timing against the clock, and exact values against NumPy.

The NumPy side carries out the same kernel, instruction by instruction, from the same source: nl and nisa are replaced by
a few lines of NumPy. `in order` adds up as the machine does (so the values are the same), `any order` lets the host's
matrix multiply choose. Seconds of one host thread; the least of several turns.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2"

import importlib.util  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from types import SimpleNamespace  # noqa: E402

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

from trine import _core  # noqa: E402
from trine.reports import compile_for  # noqa: E402

FOLDER = Path(__file__).resolve().parent.parent / "examples/nki"
F32, BF16 = np.float32, ml_dtypes.bfloat16


def load(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def least_seconds(work, rounds):
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


# Instructions in NumPy: f32 inside, rounded to dst's dtype. Operations are NumPy's own functions.


def wide(x):
    return x.astype(F32) if isinstance(x, np.ndarray) else F32(x)


def reduced(op, x):
    """Sums go strictly from left to right."""
    return (np.add.accumulate(x, axis=1)[:, -1:] if op is np.add else op.reduce(x, axis=1, keepdims=True)).astype(F32)


def multiply_in_order(sums, stationary, moving):
    """One fused multiply-add after the other along K; the product is exact in f64."""
    a, b = stationary.astype(np.float64), moving.astype(np.float64)
    for k in range(len(a)):
        sums[...] = sums + a[k][:, None] * b[k]


def multiply_in_any_order(sums, stationary, moving):
    sums += wide(stationary).T @ wide(moving)


def activate(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None):
    x = wide(data) * F32(scale)
    y = op(x if bias is None else x + bias)
    dst[...] = y
    if reduce_res is not None:
        reduce_res[...] = reduced(reduce_op, y)


def isa(multiply):
    def put(f):
        def instruction(dst, **operands):
            dst[...] = f(**operands)

        return instruction

    def scalar(data, op0, operand0, op1=None, operand1=None):
        x = op0(wide(data), wide(operand0))
        return x if op1 is None else op1(x, wide(operand1))

    return SimpleNamespace(
        dma_copy=put(lambda src: src),
        tensor_copy=put(lambda src: src),
        nc_transpose=put(lambda data: data.T),
        nc_matmul=lambda dst, stationary, moving: multiply(dst, stationary, moving),
        tensor_scalar=put(scalar),
        scalar_tensor_tensor=put(scalar),
        tensor_tensor=put(lambda data1, data2, op: op(wide(data1), wide(data2))),
        tensor_reduce=put(lambda op, data, axis, negate=False: reduced(op, wide(data)) * F32(-1 if negate else 1)),
        reciprocal=put(lambda data: 1 / wide(data)),
        activation=activate,
        activation_reduce=activate,
    )


class Rows(np.ndarray):
    def ap(self, pattern):
        return np.lib.stride_tricks.as_strided(self, [n for _, n in pattern], [s * self.itemsize for s, _ in pattern])


def language():
    def ndarray(shape, dtype=F32, buffer=None):
        return np.zeros(shape, dtype).view(Rows)

    return SimpleNamespace(
        ndarray=ndarray,
        zeros=ndarray,
        load=lambda x: x.copy(),
        store=lambda dst, x: dst.__setitem__(..., x),
        copy=lambda x, dtype=None: x.astype(dtype or x.dtype),
        float32=F32, sbuf="sbuf", psum="psum", shared_hbm="hbm", max=np.maximum, minimum=np.minimum, maximum=np.maximum,
        add=np.add, multiply=np.multiply, subtract=np.subtract, exp=np.exp, log=np.log, square=np.square,
        rsqrt=lambda x: 1 / np.sqrt(x),
        tile_size=SimpleNamespace(pmax=128, psum_bank_fmax=512, gemm_moving_fmax=512, bn_stats_fmax=512),
    )  # fmt: skip


def in_numpy(file, name, multiply):
    module = load(file)
    module.nl, module.nisa = language(), isa(multiply)
    return getattr(module, name).fn


def trace_rows():
    big, tokens = ((8192, 4096), (8192, 8192)), ((128, 4096), (128, 4096), (4096, 128))
    cases = [("matmul", "blocked_k", big, "float32"), ("matmul", "tiled", big, "float32"),
             ("attention", "flash_attention", tokens, "bfloat16")]  # fmt: skip
    print(f"{'traced and timed, trn2':<38}{'trace s':>9}{'time s':>9}{'both s':>9}")
    for file, name, shapes, dtype in cases:
        trace = time_it = float("inf")
        for _ in range(3):
            kernel = getattr(load(file), name)
            start = time.process_time()
            program = compile_for(kernel, shapes, {}, "trn2.3xlarge", dtype)[0].program
            middle = time.process_time()
            _core.time(program, "trn2.3xlarge")
            trace, time_it = min(trace, middle - start), min(time_it, time.process_time() - middle)
        print(f"{name + ' ' + dtype:<38}{trace:>9.2f}{time_it:>9.2f}{trace + time_it:>9.2f}")


def value_rows():
    random = np.random.default_rng(7)

    def some(*shape, dtype=BF16):
        return random.standard_normal(shape).astype(dtype)

    cases = [("matmul", "blocked_k", (some(512, 512, dtype=F32), some(512, 1024, dtype=F32))),
             ("matmul", "blocked_k", (some(512, 512), some(512, 1024))),
             ("attention", "flash_attention", (some(128, 1024), some(128, 1024), some(1024, 128))),
             ("qkv", "rmsnorm_qkv", (some(1, 1024, 1024), some(1024, 384))),
             ("norms", "softmax", (some(1024, 2048),))]  # fmt: skip
    print(f"\n{'values, trn2':<34}{'exact ms':>10}{'in order ms':>13}{'ratio':>8}{'any order ms':>14}{'ratio':>8}")
    for file, name, args in cases:
        kernel, ordered, free = getattr(load(file), name), *(in_numpy(file, name, m) for m in (multiply_in_order, multiply_in_any_order))
        got, want = (r[0] if isinstance(r, tuple) else r for r in (kernel(*args), ordered(*args)))
        difference = np.abs(got.astype(float) - want.astype(float)).max() / np.abs(want.astype(float)).max()
        assert difference < 2e-2, f"{name}: {difference}"
        exact = least_seconds(lambda: kernel(*args), 7)
        slow, fast = least_seconds(lambda: ordered(*args), 2), least_seconds(lambda: free(*args), 5)
        title = f"{name} {args[0].dtype} {'x'.join(map(str, args[0].shape))}"
        print(f"{title:<34}{1e3 * exact:>10.1f}{1e3 * slow:>13.1f}{slow / exact:>8.1f}{1e3 * fast:>14.1f}{fast / exact:>8.1f}")


if __name__ == "__main__":
    trace_rows()
    value_rows()
