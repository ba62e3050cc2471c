"""The device `neuron`: eager values, gradients, memory, generator, autocast, saving, errors."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")

from torch import nn  # noqa: E402

import trine.torch  # noqa: E402

trine.torch.autoload()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_arithmetic_and_views():
    a, b = torch.randn(4, 6), torch.randn(6, 5)
    x, y = a.to("neuron"), b.to("neuron")
    assert x.device == torch.device("neuron:0") and "device='neuron:0'" in repr(x)
    torch.testing.assert_close((x @ y).cpu(), a @ b)
    torch.testing.assert_close((x.t()[1:3] * 2 + 1).cpu(), a.t()[1:3] * 2 + 1)
    x[1:3, ::2] = 7
    a[1:3, ::2] = 7
    assert torch.equal(x.cpu(), a)
    assert (x > 0).sum().item() == (a > 0).sum().item()
    torch.testing.assert_close(torch.softmax(x, -1).cpu(), torch.softmax(a, -1))


def test_in_place_ops_write_where_they_should():
    a = torch.randn(3, 4)
    x = a.to("neuron")
    alias = x.view(-1)
    x.mul_(2).add_(1)
    x += x
    assert torch.equal(alias.cpu().view(3, 4), (a * 2 + 1) * 2)
    x.t().add_(torch.arange(4.0, device="neuron").unsqueeze(1))
    torch.testing.assert_close(x.cpu(), (a * 2 + 1) * 2 + torch.arange(4.0))


def test_what_has_no_row_runs_on_the_cpu_and_is_counted():
    before = torch.neuron.fallbacks().get("aten::nonzero", 0)
    assert torch.nonzero(torch.tensor([0, 3, 0, 1], device="neuron")).flatten().tolist() == [1, 3]
    assert torch.neuron.fallbacks()["aten::nonzero"] == before + 1


def test_a_call_is_compiled_once():
    x = torch.randn(11, 13, device="neuron")
    torch.tanh(x)
    before = torch.neuron.programs()
    for _ in range(5):
        torch.tanh(x)
    assert torch.neuron.programs() == before


def train(device, steps=4):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to(device)
    x, y = torch.randn(32, 8).to(device), torch.randint(0, 4, (32,)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def test_training_agrees_with_the_cpu_and_compiles_nothing_new():
    assert train("neuron") == pytest.approx(train("cpu"), rel=1e-5)
    before = torch.neuron.programs()
    train("neuron", steps=6)  # the optimiser's numbers change with every step
    assert torch.neuron.programs() == before


def test_tied_weights_stay_tied():
    model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
    model["b"].weight = model["a"].weight
    model.to("neuron")
    assert model["b"].weight is model["a"].weight


def test_dropout_follows_the_seed():
    x, drawn = torch.ones(1000, device="neuron"), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(nn.functional.dropout(x, 0.5).cpu())
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    state = torch.neuron.get_rng_state()
    first = torch.rand(8, device="neuron").cpu()
    torch.neuron.set_rng_state(state)
    assert torch.equal(first, torch.rand(8, device="neuron").cpu())


def test_autocast():
    x, w = torch.randn(4, 8, device="neuron"), torch.randn(8, 8, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        y = x @ w
        assert y.dtype is torch.bfloat16 and torch.nn.functional.softmax(y, -1).dtype is torch.float32


def test_memory_is_counted_and_bounded():
    before = torch.neuron.memory_allocated()
    x = torch.empty(1 << 20, device="neuron")
    assert torch.neuron.memory_allocated() - before == 4 << 20
    del x
    assert torch.neuron.memory_allocated() == before
    with pytest.raises(torch.OutOfMemoryError, match="neuron:0"):
        torch.empty(1 << 36, device="neuron")
    assert "MiB" in torch.neuron.memory_summary()


def test_saving_and_pickling():
    x = torch.randn(3, 4, device="neuron")
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    again = torch.load(file)["x"]
    assert again.device.type == "neuron" and torch.equal(again.cpu(), x.cpu())
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"
    assert torch.equal(pickle.loads(pickle.dumps(x)).cpu(), x.cpu())
    assert torch.equal(copy.deepcopy(x).cpu(), x.cpu())


def test_mixed_devices_are_an_error():
    with pytest.raises(RuntimeError, match="(?i)expected all"):
        torch.ones(3, device="neuron") + torch.ones(3)


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match="is not there"):
        torch.ones(2, device="neuron:99")


def test_compiled_on_the_device():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("neuron")
    x = torch.randn(5, 8, device="neuron")
    out = torch.compile(model, backend="neuron")(x)
    assert out.device.type == "neuron"
    torch.testing.assert_close(out.cpu(), model(x).cpu(), rtol=1e-5, atol=1e-5)
    out.sum().backward()
    assert model[0].weight.grad.device.type == "neuron"


def test_a_second_process_finds_the_programs(tmp_path):
    code = (
        "import sys, torch; x = torch.randn(3, 5, device='neuron'); y = torch.softmax(x * 2, -1)\n"
        "print('trine.torch.eager' in sys.modules, torch.allclose(y.cpu(), torch.softmax(x.cpu() * 2, -1)))"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env).stdout.split() for _ in range(2)]
    assert said == [["True", "True"], ["False", "True"]]
    file = next((tmp_path / "trine").glob("torch-*.json"))
    file.write_text(file.read_text()[:50])  # a damaged file counts as none
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env).stdout.split() == ["True", "True"]


def test_torch_finds_the_device_by_itself():
    code = "import torch; print(torch.ones(2, device='neuron').sum().item(), torch.neuron.device_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0", "2"]


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_with_a_gradient_is_one_op(is_causal):
    torch.manual_seed(0)
    ours = [torch.randn(2, 4, 16, 8, device="neuron", requires_grad=True) for _ in range(3)]
    theirs = [t.detach().cpu().requires_grad_() for t in ours]
    out = torch.nn.functional.scaled_dot_product_attention(*ours, is_causal=is_causal)
    assert "FlashAttention" in out.grad_fn.name()
    want = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=is_causal)
    out.square().sum().backward()
    want.square().sum().backward()
    torch.testing.assert_close(out.cpu(), want, rtol=1e-5, atol=1e-5)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-5)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert "FlashAttention" not in torch.nn.functional.scaled_dot_product_attention(*ours).grad_fn.name()
