"""The older spellings: torch_xla's device, steps, autocast and loader; torch_neuronx's traces."""

import importlib.util
import io
import os
import struct
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
import torch_xla  # noqa: E402
import torch_xla.core.xla_model as xm  # noqa: E402
import torch_xla.debug.metrics as metrics  # noqa: E402
import torch_xla.distributed.xla_multiprocessing as xmp  # noqa: E402
import torch_xla.runtime as xr  # noqa: E402
from torch import nn  # noqa: E402
from torch_xla.amp import GradScaler, autocast  # noqa: E402
from torch_xla.distributed.parallel_loader import MpDeviceLoader  # noqa: E402


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_the_device_is_xla():
    assert xm.xla_device().type == "xla" and torch.ones(2, device="xla").device == xm.xla_device()
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


def test_a_step_that_is_skipped_on_the_device():
    from torch_xla.amp import syncfree

    for kind, plain in ((syncfree.AdamW, torch.optim.AdamW), (syncfree.SGD, torch.optim.SGD)):
        found = []
        for optimizer_of, device in ((kind, "xla"), (plain, "cpu")):
            m = model().to(device)
            scaler = GradScaler(init_scale=4.0) if device == "xla" else torch.amp.GradScaler("cpu", init_scale=4.0)
            optimizer = optimizer_of(m.parameters(), lr=0.1)
            for factor in (1.0, float("inf"), 1.0):
                optimizer.zero_grad()
                loss = m(torch.ones(2, 8, device=device)).sum() * torch.tensor(factor).to(device)
                xm.mark_step()
                ran = metrics.metric_data("ExecuteTime")[0]
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                xm.mark_step()
                assert metrics.metric_data("ExecuteTime")[0] - ran == (1 if device == "xla" else 0)
            found.append([p.detach().cpu() for p in m.parameters()] + [torch.tensor(scaler.get_scale())])
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_a_function_as_one_program():
    import torch_xla

    @torch_xla.compile
    def f(x):
        return (x * 2).sum() + 1

    x = torch.ones(3, device="xla")
    assert f(x).item() == 7
    with pytest.raises(RuntimeError, match="reads a value inside"):
        torch_xla.compile(lambda v: v + v.sum().item(), full_graph=True)(x)


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
    file = io.BytesIO()
    torch.jit.save(any_batch, file)
    torch.testing.assert_close(torch.jit.load(io.BytesIO(file.getvalue()))(x), m(x))
    with pytest.raises(RuntimeError, match="trace again for another shape"):
        any_batch(torch.randn(7, 9))


def test_a_batch_over_cores():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def forward(self, x, y):
            return {"sum": self.inner(x) + self.inner(y), "x": x * 2}

    m, x, y = Two().eval(), torch.randn(7, 8), torch.randn(7, 8)
    before = torch.neuron.memory_allocated(1)
    parallel = torch_neuronx.DataParallel(torch_neuronx.trace(m, (x[:2], y[:2])))
    assert torch.neuron.memory_allocated(1) > before  # the weights are in each core's memory
    torch.testing.assert_close(parallel(x, y), m(x, y))
    parallel.disable_dynamic_batching()
    torch.testing.assert_close(parallel(x[:4], y[:4]), m(x[:4], y[:4]))
    with pytest.raises(ValueError, match="2 on each of 2 cores"):
        parallel(x, y)
    with pytest.raises(ValueError, match="cores 0 to 1"):
        torch_neuronx.DataParallel(torch_neuronx.trace(m, (x, y)), device_ids=[5])


def test_weights_are_replaced_without_compiling():
    m, x = model().eval(), torch.randn(3, 8)
    traced = torch_neuronx.trace(m, x, inline_weights_to_neff=False)
    torch.testing.assert_close(traced(x), m(x))
    torch.manual_seed(9)
    other = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    torch_neuronx.replace_weights(traced, other)
    torch.testing.assert_close(traced(x), other(x))
    torch_neuronx.replace_weights(traced, {"2.bias": torch.zeros(4)})
    torch.testing.assert_close(traced(x), other(x) - other[2].bias)
    with pytest.raises(ValueError, match=r"it was traced as torch.float32\[4\]"):
        torch_neuronx.replace_weights(traced, {"2.bias": torch.zeros(5)})
    with pytest.raises(ValueError, match="none of"):
        torch_neuronx.replace_weights(traced, {"bias": torch.zeros(4)})


@pytest.mark.parametrize("damage", [
    lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"no trace at all", lambda b: b.replace(b"stablehlo", b"stablehl0"),
    lambda b: b.replace(*[struct.pack("<f", v) for v in (0.625, 0.875)]),
])  # fmt: skip
def test_a_damaged_trace_says_so(tmp_path, damage):
    path = tmp_path / "model.pt"
    traced = model().eval()
    torch.nn.init.constant_(next(traced.parameters()), 0.625)  # a weight that one damage looks for
    torch.jit.save(torch_neuronx.trace(traced, torch.randn(3, 8)), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RuntimeError, match=r"model.pt' is damaged, or no saved trace(.|\n)*try"):
        torch.jit.load(path)


def test_graphs_are_collected_and_compiled_ahead(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    env = {**os.environ, "NEURON_COMPILE_CACHE_URL": str(tmp_path / "cache"), "XDG_CACHE_HOME": str(tmp_path),
           "NEURON_NUM_PARALLEL_COMPILE_WORKERS": "2", "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat"}  # fmt: skip
    run = [sys.executable, str(script)]
    command = [sys.executable, "-m", "torch_neuronx.parallel_compile.neuron_parallel_compile", *run]
    ahead = subprocess.run(command, capture_output=True, text=True, env=env)
    assert ahead.returncode == 0 and "compiled 2 of 2 graphs" in ahead.stderr, ahead.stderr[-2000:]
    assert "loss 0.0000" in ahead.stdout
    done = subprocess.run(run, capture_output=True, text=True, env=env)
    assert "loss 0.0000" not in done.stdout and "made None found 2" in done.stdout, done.stderr[-2000:]


TRAIN = """
import torch, torch_xla.core.xla_model as xm, torch_xla.debug.metrics as met
torch.manual_seed(0)
m = torch.nn.Linear(8, 4).to(xm.xla_device())
o = torch.optim.AdamW(m.parameters())
for _ in range(3):
    o.zero_grad()
    loss = m(torch.ones(2, 8, device=xm.xla_device())).square().mean()
    loss.backward()
    xm.optimizer_step(o, barrier=True)
print(f"loss {loss.item():.4f} made {met.counter_value('CacheMade')} found {met.counter_value('CacheFound')}")
"""


def test_analyze_names_what_a_program_cannot_hold():
    def f(x):
        return torch.linalg.svdvals(x) + 1

    found = torch_neuronx.analyze(f, torch.randn(3, 3))
    assert found["percent_supported"] < 100 and "svd" in found["unsupported_operators"][0]["kind"]
    with pytest.raises(NotImplementedError, match="svd"):
        torch_neuronx.trace(f, torch.randn(3, 3))


@pytest.mark.parametrize("options", [[], ["--amp"]])
def test_the_tutorial(options, tmp_path):
    pytest.importorskip("transformers")
    script = ROOT / "examples/torch/bert_training.py"
    assert "trine" not in script.read_text()
    run = [sys.executable, str(script), "--steps", "3", "--layers", "1", "--width", "32", *options]
    env = {**os.environ, "NEURON_COMPILE_CACHE_URL": str(tmp_path), "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat"}
    said, kept = [], []
    for _ in range(2):
        done = subprocess.run(run, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
        said.append([line.split("  ")[1] for line in done.stdout.splitlines() if "loss" in line])
        kept.append(sorted(p.name for p in tmp_path.rglob("*.entry")))
    assert said[0] and said[0] == said[1]
    assert len(kept[0]) >= 2 and kept[0] == kept[1]  # the second run found every program


def test_a_second_adapter_compiles_nothing(monkeypatch):
    pytest.importorskip("transformers")
    spec = importlib.util.spec_from_file_location("lora", ROOT / "examples/torch/lora.py")
    lora = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lora)
    monkeypatch.setattr(sys, "argv", ["lora.py", "--steps", "3", "--layers", "1", "--width", "32"])
    first, second = lora.main()
    assert first >= 2 and second == 0


@pytest.mark.slow
def test_trained_on_trn1_deployed_on_inf2(tmp_path):
    pytest.importorskip("transformers")
    script = ROOT / "examples/torch/train_deploy.py"
    assert "trine" not in script.read_text().lower()
    said = []
    for instance, arguments in (("trn1.2xlarge", ["train", "w.pt"]), ("inf2.xlarge", ["deploy", "w.pt", "out.pt"])):
        env = {**os.environ, "TRINE_INSTANCE": instance, "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat"}
        done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        said.append(done.stdout)
    assert "trn1.2xlarge" in said[0] and "inf2.xlarge" in said[1] and "largest difference" in said[1]


def test_serialization_and_one_process(tmp_path):
    import torch_xla.distributed.xla_backend  # noqa: F401
    import torch_xla.utils.serialization as xser

    w = torch.ones(3, device="xla") * 4
    xser.save({"w": w}, tmp_path / "w.pt")
    assert torch.equal(xser.load(tmp_path / "w.pt")["w"], torch.full((3,), 4.0))
    torch.distributed.init_process_group("xla", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert xm.xrt_world_size() == 1
        assert xm.all_reduce(xm.REDUCE_SUM, w).tolist() == [4.0] * 3
    finally:
        torch.distributed.destroy_process_group()
    with pytest.raises(ValueError, match=r"nprocs=99, expected 1 to \d+"):
        xmp.spawn(print, nprocs=99)


@pytest.mark.parametrize("device", ["neuron", pytest.param("xla", marks=pytest.mark.slow)])
def test_processes_that_train_together(device):
    command = ["torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    script = str(ROOT / "tests/torch/ranks.py")
    done = subprocess.run([sys.executable, "-m", *command, script, device], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat"})  # fmt: skip
    assert done.returncode == 0 and all(f"rank {i} agrees" in done.stdout for i in (0, 1)), done.stderr[-3000:]


def spawned(rank, folder):
    d = torch_xla.device()
    x = torch.full((2,), rank + 1.0, device=d)
    assert (xr.world_size(), xr.global_ordinal()) == (2, rank)
    assert xm.all_reduce(xm.REDUCE_SUM, x).tolist() == [3, 3] and xm.all_gather(x).tolist() == [1, 1, 2, 2]
    assert xm.reduce_scatter(xm.REDUCE_SUM, x, 1.0, 0, 2).tolist() == [3] and xm.all_to_all(x, 0, 0, 2).tolist() == [1, 2]
    assert xm.collective_permute(x, [[0, 1], [1, 0]]).tolist() == [2 - rank] * 2
    assert xm.all_reduce(xm.REDUCE_SUM, x, groups=[[0], [1]]).tolist() == [rank + 1] * 2
    model = torch.nn.Linear(3, 1).to(d)
    xm.broadcast_master_param(model)
    model(torch.full((1, 3), float(rank), device=d)).sum().backward()
    xm.optimizer_step(torch.optim.SGD(model.parameters(), 1.0), barrier=True)
    w = xm.all_gather(model.weight.detach())
    assert torch.equal(w[0], w[1]) and xm.mesh_reduce("sum", rank, sum) == 1
    xm.do_on_ordinals((folder / "done").write_text, ("done",))


@pytest.mark.slow
def test_processes_of_spawn(tmp_path):
    xmp.spawn(spawned, args=(tmp_path,))
    assert (tmp_path / "done").read_text() == "done"


def test_compiler_args_change_values(monkeypatch):
    torch.manual_seed(0)
    model, x = torch.nn.Linear(64, 8).eval(), torch.randn(4, 64)
    plain, cast = torch_neuronx.trace(model, x), torch_neuronx.trace(model, x, compiler_args=["--auto-cast", "matmult", "-O1"])
    want = model(x).detach()
    assert (plain(x) - want).abs().max() < 1e-5 < (cast(x) - want).abs().max() < 3e-2
    with pytest.raises(RuntimeError, match="--auto-cast: found \"most\"; expected none, matmult, all"):
        torch_neuronx.trace(model, x, compiler_args="--auto-cast most")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--model-type=transformer --auto-cast=all")
    torch._dynamo.reset()
    assert 1e-5 < (torch.compile(model, backend="neuron")(x) - want).abs().max() < 3e-2


def test_a_mesh_and_what_is_dealt_over_it():
    import torch_xla.distributed.spmd as xs

    n = xr.global_runtime_device_count()
    mesh, x = xs.Mesh(range(n), (1, n), ("data", "model")), torch.ones(4, 4, device="xla")
    assert mesh.shape() == {"data": 1, "model": n} and mesh.get_logical_mesh().shape == (1, n)
    assert xs.mark_sharding(x, mesh, ("data", "model")).sum().item() == 16
    with pytest.raises(ValueError, match="found axis 'rows', expected one of"):
        xs.mark_sharding(x, mesh, ("rows", None))
    with pytest.raises(ValueError, match="found 1 entries"):
        xs.mark_sharding(x, mesh, ("data",))


def test_analyze_and_the_audit_list_the_same_ops():
    from trine.torch import export, op_list

    def f(x):
        return torch.linalg.svdvals(x @ x) + 1

    found = torch_neuronx.analyze(f, torch.randn(3, 3))
    module, args = export.as_module(f), (torch.randn(3, 3),)
    rows = op_list.op_rows(export.exported(module, args).graph, module, args)
    assert found["supported_operators"]["aten"] == {r["op"]: r["count"] for r in rows if r["runs_on"] == "neuron"}
    (refused,) = [r for r in rows if r["runs_on"] == "cpu"]
    assert "svdvals(x @ x)" in refused["lines"][0] and __file__ in refused["lines"][0]
    assert found["unsupported_operators"][0]["instances"] == refused["lines"]
