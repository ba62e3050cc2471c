"""Kernels of the functional dialect: nki.jit with its modes, baremetal, benchmark, profile, simulate_kernel."""

import functools
import os

import numpy as np

from trine.nki import create
from trine.nki.kernel import Kernel, map_results
from trine.nki.old.blocks import Blocks
from trine.nki.old.joined import join_masks
from trine.nki.old.record import Recorder
from trine.nki.old.tile import Tile
from trine.nki.tensor import SHARED_HBM, NkiTensor
from trine.nki.trace import error

MODES = ("auto", "baremetal", "benchmark", "jax", "profile", "simulation", "torchxla", "trace")


def results(result):
    """Tiles that are returned from the chip are copied out, as the simulator of that time did."""
    if isinstance(result, (list, tuple)):
        return type(result)(results(r) for r in result)
    if isinstance(result, Blocks):
        raise error("NKI005", f"{result!r} returned", "a tensor in shared_hbm")
    if isinstance(result, NkiTensor) and result.on_chip:
        from trine.nki.old import language

        out = Tile.of(create.ndarray(result.shape, result.dtype, SHARED_HBM))
        language.store(out, result)
        return out
    return result


def dialect(tracer, obeys_addresses=True):
    return Recorder(tracer, Tile.of, results, obeys_addresses)


_without_addresses = functools.partial(dialect, obeys_addresses=False)


class FunctionalKernel(Kernel):
    """A kernel of the functional dialect. `kernel[4, nl.nc(2)](…)` runs one program for each point of the grid."""

    def __init__(self, fn, target=None, simulate=False, schedule=(), grid=(), dialect=dialect, ranks=0):
        if getattr(fn, "force_auto_alloc", False):
            dialect = _without_addresses
        as_is = getattr(fn, "skip_middle_end", False)
        super().__init__(join_masks(fn), target, simulate, schedule, grid, dialect, ranks)
        if as_is:
            self.fn.skip_middle_end = True

    def _documents(self, name):
        from trine.nki.old import isa, language

        return hasattr(isa, name) or hasattr(language, name)

    def _rules(self):
        return "functional as is" if getattr(self.fn, "skip_middle_end", False) else "functional"

    def as_is(self):
        self.fn.skip_middle_end = True
        self._cache = {}
        return self

    def placed_by_scheduler(self):
        made = self._but(dialect=_without_addresses)
        made._cache = {}
        return made


def _as_kernel(func, simulate=False, target=None):
    if isinstance(func, (Kernel, Benchmark)) and target is None:
        return func
    return FunctionalKernel(getattr(func, "fn", func), target, simulate)


def jit(func=None, mode="auto", platform_target=None, **kwargs):
    """Decorates a kernel. Every mode runs on the virtual chip; benchmark and profile give time instead of values."""
    if mode not in MODES:
        raise error("NKI003", f"nki.jit(mode={mode!r})", "one of " + ", ".join(MODES))
    if func is None:
        return functools.partial(jit, mode=mode, platform_target=platform_target, **kwargs)
    kernel = FunctionalKernel(getattr(func, "fn", func), platform_target, mode == "simulation")
    return Benchmark(kernel, **kwargs) if mode in ("benchmark", "profile") else kernel


def trace(func=None, **_):
    """An early name of jit."""
    return trace if func is None else _as_kernel(func)


def baremetal(kernel=None, **kwargs):
    """Runs the kernel on NumPy arrays. Options that name files of the compiler have no effect."""
    return functools.partial(baremetal, **kwargs) if kernel is None else _as_kernel(kernel)


def simulate_kernel(kernel, *args, **kwargs):
    """Runs a kernel on the simulator and returns its results."""
    kernel = kernel.kernel if isinstance(kernel, Benchmark) else _as_kernel(kernel)
    return kernel._but(simulate=True)(*args, **kwargs)


class Latency:
    """The timer is exact: every run takes the same time, so every percentile is that time."""

    PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)

    def __init__(self, time_ns):
        self.time_us = time_ns / 1000

    def get_latency_percentile(self, percentile):
        """Time in µs."""
        if percentile not in self.PERCENTILES:
            raise ValueError(f"percentile {percentile}; expected one of {', '.join(map(str, self.PERCENTILES))}")
        return self.time_us


class BenchmarkResult:
    def __init__(self, time_ns):
        self.nc_latency = Latency(time_ns)


class Benchmark:
    """A kernel that is timed when it is called, from the shapes of its arguments; no values are computed.

    What it returns has the shapes of the results and holds NaN, as benchmarks on the chip return nothing of use either.
    """

    def __init__(self, kernel, warmup=10, iters=100, save_neff_name=None, save_trace_name=None, working_directory=".", **_):
        functools.update_wrapper(self, kernel.fn)
        self.kernel, self.folder = kernel, working_directory
        self.save_neff_name, self.save_trace_name = save_neff_name, save_trace_name
        self.benchmark_result = self.report = None

    def __getitem__(self, grid):
        made = Benchmark(self.kernel[grid], save_neff_name=self.save_neff_name, save_trace_name=self.save_trace_name,
                         working_directory=self.folder)  # fmt: skip
        made.parent = self
        return made

    def __call__(self, *args, **kwargs):
        from trine.reports import compile_for, report

        compiled, _, instance = compile_for(self.kernel, args, kwargs)
        self.report = report(self.kernel, *args, instance=instance, **kwargs)
        self.benchmark_result = BenchmarkResult(self.report.time_ns)
        if hasattr(self, "parent"):  # kernel[grid](…) is called on a copy; people ask the kernel
            self.parent.benchmark_result, self.parent.report = self.benchmark_result, self.report
        os.makedirs(self.folder, exist_ok=True)
        if self.save_neff_name:
            compiled.program.save(os.path.join(self.folder, self.save_neff_name))
        if self.save_trace_name:
            trace_to(self.report, os.path.join(self.folder, self.save_trace_name))
        return map_results(compiled.results, _undefined)


def trace_to(report, path):
    """The trace under the name asked for; Perfetto opens it as *.json."""
    report.trace(path + ".json")
    os.replace(path + ".json", path)


def _undefined(_, shape, dtype):
    kind = dtype.numpy or np.dtype(f"uint{dtype.bits}")
    return np.full(shape, np.nan if dtype.is_float else 0, kind)


def benchmark(kernel=None, **kwargs):
    """Times a kernel: `.benchmark_result.nc_latency.get_latency_percentile(p)` in µs after a call."""
    return functools.partial(benchmark, **kwargs) if kernel is None else Benchmark(_as_kernel(kernel), **kwargs)


def profile(func=None, working_directory=".", save_neff_name="file.neff", save_trace_name="profile.ntff", **kwargs):
    """Times a kernel and saves its program and its trace; Trine's own formats under the names asked for."""
    options = {"working_directory": working_directory, "save_neff_name": save_neff_name,
               "save_trace_name": save_trace_name} | kwargs  # fmt: skip
    return functools.partial(profile, **options) if func is None else Benchmark(_as_kernel(func), **options)
