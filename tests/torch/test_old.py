"""The older spellings: torch_xla's device, steps, autocast and loader; torch_neuronx's traces."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")
import trine.torch  # noqa: E402

trine.torch.autoload()

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/compat"))

import torch_neuronx  # noqa: E402
import torch_xla.core.xla_model as xm  # noqa: E402
import torch_xla.debug.metrics as metrics  # noqa: E402
from torch import nn  # noqa: E402
from torch_xla.amp import GradScaler, autocast  # noqa: E402
from torch_xla.distributed.parallel_loader import MpDeviceLoader  # noqa: E402


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_the_device_is_xla():
    assert xm.xla_device().type == "xla" and str(torch.ones(2, device="xla").device) == "xla:0"
    assert xm.get_xla_supported_devices() == ["xla:0", "xla:1"]
    assert (xm.get_ordinal(), xm.xrt_world_size(), xm.is_master_ordinal()) == (0, 1, True)


def test_a_step_of_training(tmp_path):
    losses = []
    for device in ("cpu", xm.xla_device()):
        m = model().to(device)
        optimizer = torch.optim.AdamW(m.parameters(), lr=0.01)
        x, y = torch.randn(16, 8, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 4
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(m(x.to(device)), y.to(device))
            loss.backward()
            xm.optimizer_step(optimizer)
            xm.mark_step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    xm.save(m.state_dict(), tmp_path / "m.pt")
    assert torch.load(tmp_path / "m.pt")["0.weight"].device.type == "cpu"
    assert "Metric: ExecuteTime" in metrics.metrics_report()


def test_amp_scales_and_steps():
    m, scaler = model().to("xla"), GradScaler()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    before = m[0].weight.detach().cpu().clone()
    with autocast(xm.xla_device()):
        out = m(torch.randn(4, 8, device="xla"))
        assert out.dtype is torch.bfloat16
        loss = out.float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, m[0].weight.detach().cpu())


def test_the_loader_moves_batches():
    data = [torch.full((2,), i) for i in range(5)]
    seen = list(MpDeviceLoader(data, xm.xla_device()))
    assert [b[0].item() for b in seen] == [0, 1, 2, 3, 4] and seen[0].device.type == "xla"


def test_trace_is_saved_and_loaded():
    m, x = model().eval(), torch.randn(3, 8)
    traced = torch_neuronx.trace(m, x)
    assert isinstance(traced, torch.jit.ScriptModule)
    file = io.BytesIO()
    torch.jit.save(traced, file)
    loaded = torch.jit.load(io.BytesIO(file.getvalue()))
    torch.testing.assert_close(loaded(x), m(x))
    with pytest.raises(RuntimeError, match="trace again for another shape"):
        loaded(torch.randn(4, 8))
    any_batch = torch_neuronx.dynamic_batch_size(loaded)
    x = torch.randn(7, 8)
    torch.testing.assert_close(any_batch(x), m(x))
    torch.testing.assert_close(torch_neuronx.DataParallel(loaded)(x), m(x))


def test_a_damaged_trace_says_so():
    with pytest.raises(RuntimeError, match="damaged"):
        torch.classes.neuron.Program("module @trace {")


def test_analyze_names_what_a_program_cannot_hold():
    def f(x):
        return torch.linalg.svdvals(x) + 1

    found = torch_neuronx.analyze(f, torch.randn(3, 3))
    assert found["percent_supported"] < 100 and "svd" in found["unsupported_operators"][0]["kind"]
    with pytest.raises(NotImplementedError, match="svd"):
        torch_neuronx.trace(f, torch.randn(3, 3))


@pytest.mark.parametrize("options", [[], ["--amp"]])
def test_the_tutorial(options):
    pytest.importorskip("transformers")
    script = ROOT / "examples/torch/bert_training.py"
    assert "trine" not in script.read_text()
    run = [sys.executable, str(script), "--steps", "3", "--layers", "1", "--width", "32", *options]
    done = subprocess.run(run, capture_output=True, text=True, env={**__import__("os").environ, "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert "loss" in done.stdout
