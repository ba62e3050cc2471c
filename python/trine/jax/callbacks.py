"""Host functions inside a program: jax.pure_callback, io_callback, debug.callback, debug.print.

JAX emits them only for the platforms it knows. Here each becomes a custom call `trine_host_call` that carries a number;
the plugin asks `_answer` for the function of that number when the program comes to it. Numbers are random: a program
taken from a persistent cache never finds another process's function under its own.
"""

import atexit
import ctypes
import secrets
import signal
import threading
import traceback
import weakref

import numpy as np
from jax._src import callback as jax_callback
from jax._src import compiler, core, debugging, dispatch, dtypes
from jax._src.interpreters import mlir
from jax._src.sharding_impls import SdyArray, SdyArrayList
from jax.interpreters import mlir as public_mlir

TARGET = "trine_host_call"


class Lowered:
    """Lives as long as JAX may still compile the program that was lowered with it; in JAX's list of the program's host
    functions it keeps the program out of the persistent cache."""


class Functions:
    """Those that a program may call: it is being lowered, or a plan of the plugin's holds the number."""

    def __init__(self):
        self.lock, self.library, self.by_number = threading.Lock(), None, {}

    def add(self, function, lowered):
        number = secrets.randbits(63)
        with self.lock:
            gone = [n for n, (_, alive) in self.by_number.items()
                    if alive() is None and not self.library.trine_pjrt_is_held(n)]  # fmt: skip
            for n in gone:
                del self.by_number[n]
            self.by_number[number] = function, weakref.ref(lowered)
        return number

    def find(self, number):
        function, _ = self.by_number.get(number, (None, None))
        if function is None:
            raise LookupError("the program calls a function of another process; it came from a cache")
        return function


functions = Functions()


class HostTensor(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_char_p),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
    ]

    def array(self) -> np.ndarray:
        """The tensor's own memory; it is ours only during the call."""
        shape = tuple(self.dims[i] for i in range(self.rank))
        dtype = np.dtype(getattr(dtypes, self.dtype.decode(), None) or self.dtype.decode())
        size = int(np.prod(shape)) * dtype.itemsize
        memory = (ctypes.c_char * size).from_address(self.data) if size else b""
        return np.frombuffer(memory, dtype).reshape(shape)


HostFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(HostTensor), ctypes.c_size_t,
    ctypes.POINTER(HostTensor), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)  # fmt: skip


class Function:
    """A Python function, with what its results must be. A token, where there is one, comes first on both sides."""

    def __init__(self, call, avals, has_token):
        self.call, self.avals, self.has_token = call, avals, has_token

    def __call__(self, inputs, outputs):
        results = self.call(*[t.array().copy() for t in inputs[self.has_token :]])
        if len(results) != len(self.avals):
            raise RuntimeError("Mismatched number of outputs from callback. "
                               f"Expected: {len(self.avals)}, Actual: {len(results)}")  # fmt: skip
        for i, (got, aval) in enumerate(zip(results, self.avals, strict=True)):
            got = np.asarray(dtypes.canonicalize_value(np.asarray(got)))
            for what in ("shape", "dtype"):
                if getattr(got, what) != getattr(aval, what):
                    raise RuntimeError(f"Incorrect output {what} for return value #{i}: "
                                       f"Expected: {getattr(aval, what)}, Actual: {getattr(got, what)}")  # fmt: skip
            if got.size:
                ctypes.memmove(outputs[self.has_token + i].data, np.ascontiguousarray(got).ctypes.data, got.nbytes)


@HostFunction
def _answer(number, inputs, input_count, outputs, output_count, message, message_bytes):
    try:
        functions.find(number)(inputs[:input_count], outputs[:output_count])
        return 0
    except BaseException as e:  # must not pass through C
        text = _what_happened(e, message_bytes - 1) + b"\0"
        ctypes.memmove(message, text, len(text))
        return 1


def _what_happened(e, limit):
    """The error in a line, then the way to it in files that are not ours, where there is room."""
    ours = {__file__, jax_callback.__file__}
    frames = [f for f in traceback.extract_tb(e.__traceback__) if f.filename not in ours]
    head = f"{type(e).__name__}: {e}".encode()
    trace = "".join(["\nTraceback (most recent call last):\n", *traceback.format_list(frames),
                   *traceback.format_exception_only(e)]).encode()  # fmt: skip
    return head[:limit] if len(head) + len(trace) > limit else head + trace


def _with_token(sharding, count):
    """JAX counts the arrays alone; a token before them lies where they do."""
    if not isinstance(sharding, SdyArrayList) or len(sharding.shardings) >= count:
        return sharding
    token = SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=sharding.shardings[0].logical_device_ids)
    return SdyArrayList((token, *sharding.shardings))


def emit(ctx, function, token, operands, result_avals, *, has_side_effect, partitioned=False, sharding=None):
    """The custom call of function(inputs, outputs); gives its results and the token after it."""
    lowered = Lowered()
    number = functions.add(function, lowered)
    ctx.module_context.add_keepalive(lowered)
    ctx.module_context.add_host_callback(lowered)
    avals = list(result_avals)
    if token is not None:
        operands, avals = [token, *operands], [core.abstract_token, *avals]
    if not avals:
        avals = [core.abstract_token]  # an effect is kept by its result
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in avals]
    op = mlir.custom_call(TARGET, result_types=types, operands=operands, backend_config=f"{number}{',parts' * partitioned}",
                          has_side_effect=has_side_effect, api_version=1)  # fmt: skip
    if sharding is not None:
        mlir.set_sharding(ctx.module_context, op, _with_token(sharding, len(avals)))
    results = list(op.results)
    return results[len(results) - len(result_avals) :], results[0] if token is not None else None


def _without_ours(known):
    """The plugin is told of host functions by the program alone."""

    def backend_compile_and_load(backend, module, executable_devices, options, host_callbacks):
        others = [h for h in host_callbacks if not isinstance(h, Lowered)]
        return known(backend, module, executable_devices, options, others)

    return backend_compile_and_load


def register(platform: str, library) -> None:
    library.trine_pjrt_is_held.argtypes = [ctypes.c_uint64]
    library.trine_pjrt_set_answer(_answer)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # whoever has another decides what Ctrl-C does
        library.trine_pjrt_take_interrupts()
    functions.library = library

    @atexit.register
    def stop():
        dispatch.wait_for_tokens()  # JAX does so too, but later
        library.trine_pjrt_set_answer(None)

    known = jax_callback.emit_python_callback

    def emit_python_callback(ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect,
                             returns_token=True, partitioned=False, sharding=None):  # fmt: skip
        if tuple(ctx.module_context.platforms) != (platform,):
            return known(ctx, callback, token, operands, operand_avals, result_avals, has_side_effect=has_side_effect,
                         returns_token=returns_token, partitioned=partitioned, sharding=sharding)  # fmt: skip
        if partitioned and result_avals:
            raise ValueError("Partitioned callback not supported with return values.")
        function = Function(callback, list(result_avals), token is not None)
        return *emit(ctx, function, token, operands, result_avals, has_side_effect=has_side_effect,
                     partitioned=partitioned, sharding=sharding), callback  # fmt: skip

    jax_callback.emit_python_callback = public_mlir.emit_python_callback = emit_python_callback
    compiler.backend_compile_and_load = _without_ours(compiler.backend_compile_and_load)
    rules = {debugging.debug_callback_p: debugging.debug_callback_lowering,
             debugging.debug_print_p: debugging.debug_print_lowering_rule}  # fmt: skip
    for primitive, rule in rules.items():
        # One number per call: a lowering must not be shared.
        mlir.register_lowering(primitive, rule, platform=platform, cacheable=False)
