"""torch_neuronx.profiling and torch_neuronx.experimental.profiler: profiles by the names that Neuron's documentation uses."""

import contextlib
import enum
import os
import pathlib
import threading

import torch


class ProfileMode(enum.Enum):
    """What to record; here all of it always is."""

    DEVICE, RUNTIME, CPU_UTIL, HOST_MEMORY = "device", "runtime", "cpu_util", "host_memory"


class NeuronConfig(torch._C._profiler._ExperimentalConfig):
    """experimental_config of torch.profiler: where profiles go. The other choices are accepted: nothing has to be left out."""

    def __init__(self, modes=(ProfileMode.DEVICE,), max_events_per_nc=None, capture_enabled_for_nc=None, profile_output_dir="output", neff_cache_dir=None,
                 precache_node_info=True, **_):  # fmt: skip
        super().__init__()
        self.modes, self.profile_output_dir = tuple(modes), profile_output_dir


class NeuronProfiler:
    """`on_trace_ready=NeuronProfiler(config).export_trace`: torch's trace, with the device's rows, into the config's folder."""

    def __init__(self, config=None):
        self.folder = pathlib.Path(getattr(config, "profile_output_dir", None) or "output")

    def export_trace(self, prof):
        self.folder.mkdir(parents=True, exist_ok=True)
        prof.export_chrome_trace(str(self.folder / f"trace_{os.getpid()}_{prof.step_num}.json"))


@contextlib.contextmanager
def profile(port=9012, profile_type="system", target="neuron_profile_perfetto", output_dir=".", ms_duration=60000, **_):
    """What runs in the block as a profile in `output_dir`, and as a trace for Perfetto. `ms_duration` ends it earlier, in words
    alone: everything until the block's end is recorded."""
    from trine import profile as profiles
    from trine.profile import perfetto

    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("torch_neuronx's profile() is entered on the main thread")
    folder = pathlib.Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with profiles.recorded(folder / "profile.ntff") as recorded:
        yield recorded
    perfetto.write(profiles.open(folder / "profile.ntff"), folder / "ntff.pftrace")
