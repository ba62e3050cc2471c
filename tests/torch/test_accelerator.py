"""torch.neuron as libraries ask it: streams, events, memory's counts and history, generators, names; and torch.accelerator."""

import gc
import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")

import trine.torch  # noqa: E402

trine.torch.autoload()


def test_each_stream_is_another_and_one_is_current():
    first, second = torch.neuron.Stream(), torch.neuron.Stream(device="neuron:1")
    assert first != torch.neuron.Stream() and second.device == torch.device("neuron:1")
    assert torch.neuron.current_stream() == torch.neuron.default_stream()
    with torch.neuron.stream(first):
        assert torch.neuron.current_stream() == first == torch.accelerator.current_stream()
        with torch.neuron.stream(None):
            assert torch.neuron.current_stream() == first
    assert torch.neuron.current_stream() == torch.neuron.default_stream()
    torch.neuron.set_stream(first)
    assert torch.neuron.current_stream() == first
    torch.neuron.set_stream(torch.neuron.default_stream())
    first.wait_stream(torch.neuron.current_stream())
    assert first.query()


def test_events_have_times():
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    torch.randn(256, 256, device="neuron") @ torch.randn(256, 256, device="neuron")
    torch.neuron.current_stream().record_event(end)
    end.synchronize()
    assert end.query() and 0 < start.elapsed_time(end) < 60e3
    assert isinstance(torch.neuron.current_stream().record_event(), torch.neuron.Event)
    with pytest.raises(TypeError, match="expected an event"):
        start.elapsed_time(3)


def test_memory_is_counted_under_the_names_of_cuda():
    x = torch.empty(1 << 18, device="neuron")
    gc.collect()  # what programs were made for
    stats = torch.neuron.memory_stats()
    assert stats["active_bytes.all.current"] == stats["reserved_bytes.all.current"] == stats["in_use_bytes"] >= x.nbytes
    assert stats["active_bytes.all.peak"] >= stats["active_bytes.all.current"] and stats["num_alloc_retries"] == 0
    assert torch.neuron.memory_stats_as_nested_dict()["active_bytes"]["all"]["peak"] == stats["active_bytes.all.peak"]
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 36, device="neuron")
    assert torch.neuron.memory_stats()["num_ooms"] == stats["num_ooms"] + 1
    assert torch.accelerator.memory_stats()["num_ooms"] == stats["num_ooms"] + 1


def allocate_here(n):
    return torch.empty(n, device="neuron")


def test_memory_has_a_history(tmp_path):
    torch.neuron.memory._record_memory_history(max_entries=100)
    held, dropped = allocate_here(100), allocate_here(200)
    del dropped
    torch.neuron.memory._dump_snapshot(tmp_path / "memory.pickle")
    torch.neuron.memory._record_memory_history(enabled=None)
    allocate_here(300)
    found = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    assert [s["total_size"] for s in found["segments"]] == [held.nbytes]
    assert found["segments"][0]["blocks"][0]["frames"][0]["name"] == "allocate_here"
    trace = found["device_traces"][0]
    assert [(e["action"], e["size"]) for e in trace] == [("alloc", 400), ("alloc", 800), ("free_requested", 800), ("free_completed", 800)]
    assert len(torch.neuron.memory._snapshot()["device_traces"][0]) == 4


def test_what_it_is_called():
    assert torch.neuron.get_device_properties().name == "trn1" and "neuron" in torch.neuron.get_device_name()
    assert torch.neuron.get_device_properties(1).total_memory == torch.neuron.mem_get_info(1)[1] == 16 << 30
    assert torch.accelerator.current_accelerator() == torch.device("neuron")


def test_generators_of_all_devices():
    torch.neuron.manual_seed_all(3)
    states = torch.neuron.get_rng_state_all()
    first = [torch.rand(4, device=f"neuron:{i}").cpu() for i in range(2)]
    torch.neuron.set_rng_state_all(states)
    assert all(torch.equal(torch.rand(4, device=f"neuron:{i}").cpu(), f) for i, f in enumerate(first))


@pytest.mark.parametrize(
    "env, found",
    [
        ({"LOCAL_RANK": "5", "TRINE_INSTANCE": "trn1.32xlarge"}, "5 32"),
        ({"LOCAL_RANK": "5", "TRINE_INSTANCE": "trn1.2xlarge"}, "1 2"),
        ({"LOCAL_RANK": "5", "TRINE_INSTANCE": "trn1.32xlarge", "NEURON_RT_VISIBLE_CORES": "5"}, "0 1"),
    ],
)
def test_a_launched_process_starts_on_its_own_core(env, found):
    code = "import torch; print(torch.ones(1, device='neuron').device.index, torch.neuron.device_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **env})
    assert done.stdout.strip() == found
