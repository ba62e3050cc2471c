"""What people do wrong, and what they are told: the line, what was found, what to do."""

import pytest
import torch

import trine
from trine.torch.build import Unsupported

pytest.importorskip("trine._torch")


def on(*shape):
    return torch.ones(*shape, device="neuron")


def masked(x):
    return torch.masked_select(x, x > 0).sum()


# what is done -> the exception and what it says
CASES = {
    "a tensor to CUDA": (lambda: on(2).cuda(), AssertionError, r"test_errors\.py:\d+(?s:.)*found     a call for CUDA(?s:.)*try       \"neuron\""),
    "a tensor on CUDA": (lambda: torch.ones(2, device="cuda"), AssertionError, r"test_errors\.py:\d+(?s:.)*try       \"neuron\""),
    "a model to CUDA": (lambda: torch.nn.Linear(2, 2).cuda(), AssertionError, r"test_errors\.py:\d+(?s:.)*no GPU"),
    "waiting for CUDA": (lambda: torch.cuda.synchronize(), AssertionError, r"torch\.neuron for torch\.cuda"),
    "shapes of a product": (lambda: on(2, 3) @ on(2, 3), RuntimeError, r"cannot be multiplied \(2x3 and 2x3\)"),
    "shapes of a sum": (lambda: on(2, 3) + on(4), RuntimeError, r"size of tensor a \(3\) must match .* b \(4\)"),
    "shapes of a layer": (lambda: torch.nn.Linear(4, 4).to("neuron")(on(2, 3)), RuntimeError, r"2x3 and 4x4"),
    "an index": (lambda: on(3)[5], IndexError, r"index 5 is out of bounds for dimension 0 with size 3"),
    "two devices": (lambda: on(3) + torch.ones(3), RuntimeError, r"same device.*neuron:0 and cpu"),
    "two devices, by a row": (lambda: torch.cat([on(3), torch.ones(3)]), RuntimeError, r"neuron(?s:.)*cpu|cpu(?s:.)*neuron"),
    "a device that is not there": (lambda: torch.ones(2, device="neuron:99"), RuntimeError, r"neuron:99 is not there.*TRINE_INSTANCE"),
    "a word that is not in the vocabulary": (lambda: torch.nn.Embedding(3, 2).to("neuron")(torch.tensor([1, 7], device="neuron")), IndexError,
                                             r"embedding: found index 7 at place 1, expected 0 to 2"),  # fmt: skip
    "a class that is not there": (lambda: torch.nn.functional.cross_entropy(on(2, 3), torch.tensor([-100, 5], device="neuron")), IndexError, r"found index 5"),
    "a row that is not there": (lambda: on(3)[torch.tensor([-3, -4], device="neuron")], IndexError, r"found index -4 at place 1, expected -3 to 2"),
    "a product of two dtypes": (lambda: on(2, 2) @ on(2, 2).half(), RuntimeError, r"same dtype.*float != .*Half"),
    "a layout the device has not": (lambda: on(3, 3).to_sparse(), NotImplementedError, r"layout Sparse.*\.cpu\(\)"),
    "too much memory": (lambda: [torch.empty(2**28, device="neuron"), torch.empty(2**40, device="neuron")], torch.OutOfMemoryError,
                        r"needs 4\.40 TB(?s:.)*the largest in use:\n  1\.07 GB(?s:.)*try a smaller batch"),  # fmt: skip
    "an op that no program holds": (lambda: trine.report(masked, torch.ones(4)), Unsupported, r"masked_select(?s:.)*test_errors\.py:\d+(?s:.)*torch\.compile"),
    "an unknown option": (lambda: torch.compile(torch.nn.Linear(2, 2), backend="neuron", options={"fast": 1})(torch.ones(1, 2)),
                          Exception, r"no option \['fast'\]"),  # fmt: skip
    "a kernel that is none": (lambda: trine.torch.kernels.wrap_nki(len), TypeError, r"@nki\.jit"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_says_what_to_do(name):
    import trine.torch.kernels  # noqa: F401

    what, kind, says = CASES[name]
    torch._dynamo.reset()
    with pytest.raises(kind, match=says):
        what()


# --- torch.neuron in the shape of torch.cuda ---

NAMES = """
    can_device_access_peer current_device current_stream default_stream device device_count device_of empty_cache
    get_device_capability get_device_name get_device_properties get_rng_state get_rng_state_all init initial_seed
    ipc_collect is_available is_bf16_supported is_current_stream_capturing is_initialized is_tf32_supported manual_seed
    manual_seed_all max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved memory_stats
    memory_stats_as_nested_dict memory_summary memory_usage reset_accumulated_memory_stats reset_max_memory_allocated
    reset_peak_memory_stats seed seed_all set_device set_rng_state set_rng_state_all set_stream stream synchronize
    Event OutOfMemoryError Stream StreamContext
""".split()


def test_torch_neuron_has_the_shape_of_torch_cuda():
    assert [n for n in NAMES if not hasattr(torch.cuda, n) and not hasattr(torch.neuron, n)] == []
    assert [n for n in NAMES if not hasattr(torch.neuron, n)] == []


def test_memory_is_told_in_every_way():
    before = torch.neuron.memory_allocated()
    kept = torch.empty(2**20, device="neuron")
    assert torch.neuron.memory_allocated() - before >= 4 * 2**20 == kept.nbytes
    assert torch.neuron.max_memory_reserved() >= torch.neuron.memory_reserved() >= 4 * 2**20
    free, total = torch.neuron.mem_get_info()
    assert total - free == torch.neuron.memory_allocated() and torch.neuron.get_device_properties().total_memory == total
    nested = torch.neuron.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.neuron.memory_stats()["in_use_bytes"]
    assert "in use" in torch.neuron.memory_summary() and 0 <= torch.neuron.memory_usage() <= 100


def test_streams_and_events():
    s = torch.neuron.Stream()
    first, last = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    with torch.neuron.stream(s):
        first.record()
        on(64, 64) @ on(64, 64)
        last.record(s)
    s.wait_event(last)
    torch.neuron.current_stream().wait_stream(s)
    torch.neuron.synchronize()
    assert s.query() and last.query() and first.elapsed_time(last) > 0


def test_the_device_of_a_tensor():
    if torch.neuron.device_count() < 2:
        pytest.skip("one device")
    with torch.neuron.device_of(torch.ones(1, device="neuron:1")):
        assert torch.neuron.current_device() == 1
    with torch.neuron.device_of(torch.ones(1)):
        assert torch.neuron.current_device() == 0
    assert torch.neuron.can_device_access_peer(0, 1)
    assert torch.neuron.get_device_capability()[0] >= 2


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.full((3,), float(i)).to("neuron") * 2  # made on the device, in a worker


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2, "persistent_workers": True}, pytest.param({"num_workers": 1, "multiprocessing_context": "spawn"}, marks=pytest.mark.slow)])
def test_a_loader_with_pinned_memory_and_workers(workers):
    held = torch.ones(2).pin_memory()
    assert held.is_pinned() and held[1:].is_pinned() and not torch.ones(2).is_pinned()
    data = torch.utils.data.TensorDataset(torch.arange(12.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, **workers)
    assert [batch.to("neuron", non_blocking=True).sum().item() for (batch,) in loader] == [6.0, 22.0, 38.0]
    batches = list(torch.utils.data.DataLoader(Rows(), batch_size=6, **workers))
    assert [b.sum().item() for b in batches] == [90.0, 306.0] and batches[0].device == torch.device("neuron:0")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_autocast_with_gradients(dtype):
    model = torch.nn.Linear(8, 8).to("neuron")
    with torch.autocast("neuron", dtype=dtype):
        out = model(on(4, 8))
        assert out.dtype is dtype and torch.nn.functional.softmax(out, -1).dtype is torch.float32
    torch.testing.assert_close(out.float(), model(on(4, 8)), rtol=0.0, atol={2: 0.01, 1: 0.3}[dtype.itemsize])
    out.float().sum().backward()
    assert model.weight.grad.dtype is torch.float32 and model.weight.grad.device.type == "neuron"
