"""Running kernels of the functional dialect: nki.jit with modes, baremetal, benchmark, profile, simulate_kernel."""

import functools
import os

import numpy as np

from neuronxcc.nki.tile import Blocks, Tile
from trine import _core
from trine.nki import create
from trine.nki.kernel import Kernel
from trine.nki.tensor import SHARED_HBM, NkiTensor
from trine.nki.trace import error
from trine.reports import compile_for


class Dialect:
    """What the tracer asks of the functional dialect."""

    wrap = staticmethod(Tile.of)

    @staticmethod
    def results(result):
        """Tiles that are returned from the chip are copied out, as the simulator of that time did."""
        if isinstance(result, (list, tuple)):
            return type(result)(Dialect.results(r) for r in result)
        if isinstance(result, Blocks):
            raise error("NKI005", "a tensor with block dimensions returned", "a tensor in shared_hbm")
        if isinstance(result, NkiTensor) and result.on_chip:
            from neuronxcc.nki import language

            out = Tile.of(create.ndarray(result.shape, result.dtype, SHARED_HBM))
            language.store(out, result)
            return out
        return result


class FunctionalKernel(Kernel):
    """A kernel of the functional dialect."""

    def __init__(self, fn, target=None, simulate=False, schedule=(), grid=(), dialect=Dialect, ranks=0):
        super().__init__(fn, target, simulate, schedule, grid, Dialect, ranks)


def jit(func=None, mode="auto", platform_target=None, **kwargs):
    """Modes: auto, jax, torchxla, baremetal, benchmark, profile, simulation. All run on the virtual chip."""
    if func is None:
        return functools.partial(jit, mode=mode, platform_target=platform_target, **kwargs)
    fn = func.fn if isinstance(func, Kernel) else func
    kernel = FunctionalKernel(fn, target=platform_target, simulate=mode == "simulation")
    if mode == "benchmark":
        return Benchmark(kernel, **kwargs)
    return kernel


def _as_kernel(func, simulate=False):
    if isinstance(func, (FunctionalKernel, Benchmark)):
        return func
    if isinstance(func, Kernel):
        return func
    return FunctionalKernel(func, simulate=simulate)


def trace(func=None, **_):
    return functools.partial(trace) if func is None else _as_kernel(func)


def simulate_kernel(kernel, *args, **kwargs):
    """Runs a kernel on the simulator and returns its results."""
    return _as_kernel(kernel, True)._but(simulate=True)(*args, **kwargs)


class Latency:
    """The timer is exact: every run takes the same time, so every percentile is it."""

    def __init__(self, time_ns):
        self.time_us = time_ns / 1000

    def get_latency_percentile(self, percentile):
        if not 0 <= percentile <= 100:
            raise ValueError(f"percentile {percentile}; expected 0 to 100")
        return self.time_us


class BenchmarkResult:
    def __init__(self, time_ns):
        self.nc_latency = Latency(time_ns)


class Benchmark:
    """A kernel that is timed when it is called; its program and trace are saved where asked."""

    def __init__(self, kernel, warmup=10, iters=100, save_neff_name=None, save_trace_name=None, working_directory=".", **_):
        functools.update_wrapper(self, kernel.fn)
        self.kernel, self.folder = kernel, working_directory
        self.save_neff_name, self.save_trace_name = save_neff_name, save_trace_name
        self.benchmark_result = None

    def __getitem__(self, grid):
        made = Benchmark(self.kernel[grid], save_neff_name=self.save_neff_name, save_trace_name=self.save_trace_name,
                         working_directory=self.folder)  # fmt: skip
        return made

    def __call__(self, *args, **kwargs):
        args = [np.asarray(a) if isinstance(a, list) else a for a in args]
        compiled, _, instance = compile_for(self.kernel, args, kwargs)
        timed = _core.time(compiled.program, instance)
        self.benchmark_result = BenchmarkResult(timed.report()["time_ns"])
        os.makedirs(self.folder, exist_ok=True)
        if self.save_neff_name:
            compiled.program.save(os.path.join(self.folder, self.save_neff_name))
        if self.save_trace_name:
            self._save_trace(compiled.program, instance)

    def _save_trace(self, program, instance):
        """Under the name that was asked for, whatever its ending; the content is Chrome trace JSON."""
        path = os.path.join(self.folder, self.save_trace_name)
        _core.save_trace(program, instance, path + ".json")
        os.replace(path + ".json", path)


def benchmark(kernel=None, **kwargs):
    return functools.partial(benchmark, **kwargs) if kernel is None else Benchmark(_as_kernel(kernel), **kwargs)


def profile(func=None, **kwargs):
    return functools.partial(profile, **kwargs) if func is None else Benchmark(_as_kernel(func), **kwargs)


def baremetal(kernel=None, **kwargs):
    return functools.partial(baremetal, **kwargs) if kernel is None else _as_kernel(kernel)


