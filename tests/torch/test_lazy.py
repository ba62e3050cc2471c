"""Steps recorded on `xla`: one program a step, found again in memory and on disk; views, writes, random numbers."""

import os
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

import torch_xla.core.xla_model as xm  # noqa: E402
import torch_xla.debug.metrics as met  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402

from trine import _torch  # noqa: E402


def train(device, steps, dropout=0.0):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 4)).to(device)
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (i + 1))
    x, y = torch.randn(16, 8, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 4
    x, y, losses = x.to(device), y.to(device), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(m(x), y)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        schedule.step()
        losses.append(loss.detach())
    return [v.item() for v in losses], m


def test_a_step_is_one_program_and_the_rate_is_no_part_of_it():
    wanted = train("cpu", 6)[0]
    met.clear_all()
    on_cpu = torch.neuron.fallbacks()
    losses, _ = train(xm.xla_device(), 6)
    assert losses == pytest.approx(wanted, rel=1e-5)
    # the first step makes the optimizer's state; the second has its own trace; from then on it is found
    assert met.metric_data("ExecuteTime")[0] == 6
    assert met.counter_value("CachedCompile") >= 4 and met.counter_value("MarkStep") == 6
    assert "CompileTime" in met.metrics_report() or met.counter_value("UncachedCompile") is None
    assert torch.neuron.fallbacks() == on_cpu


def test_parameters_keep_their_memory():
    _, m = train(xm.xla_device(), 2)
    weight = m[0].weight.detach()
    before, old = weight.data_ptr(), weight.cpu()
    weight.add_(1.0)
    xm.mark_step()
    assert weight.data_ptr() == before and torch.equal(weight.cpu(), old + 1)


def test_nothing_runs_until_a_value_is_asked_for():
    xm.mark_step()
    a = torch.ones(3, device="xla")
    b = a * 2 + 1
    assert _torch.recorded_words(0) > 0 and b.data_ptr() == 0
    assert b.sum().item() == 9 and _torch.recorded_words(0) == 0
    unused = a + 5
    del unused
    xm.mark_step()


def test_random_numbers_are_those_of_eager():
    drawn = []
    for device in ("xla", "neuron"):
        torch.manual_seed(5)
        a = torch.rand(4, device=device)
        b = nn.functional.dropout(torch.ones(64, device=device), 0.5)
        torch.manual_seed(5)
        c = torch.rand(4, device=device)
        drawn.append((a.cpu(), c.cpu()))
        assert set(b.cpu().unique().tolist()) == {0.0, 2.0}
    assert torch.equal(drawn[0][0], drawn[1][0]) and torch.equal(drawn[0][0], drawn[0][1])
    assert train("xla", 3, dropout=0.5)[0] == train("xla", 3, dropout=0.5)[0]


VIEWS = [
    lambda t: t.t(), lambda t: t[1:, ::2], lambda t: t[:, 1], lambda t: t.diagonal(), lambda t: t.reshape(3, 8).t(),
    lambda t: t.unfold(1, 3, 2), lambda t: t[2].expand(5, 6), lambda t: t.view(2, 2, 6).permute(2, 0, 1),
    lambda t: t.as_strided((3, 2), (5, 1), 2), lambda t: t[:0], lambda t: t.unsqueeze(1)[::3], lambda t: t.flatten()[7::4],
]  # fmt: skip
WRITES = [
    lambda v, s: v.add_(s), lambda v, s: v.mul_(v + s), lambda v, s: v.copy_(torch.arange(v.numel(), dtype=v.dtype).view(v.shape)),
    lambda v, s: v.fill_(s), lambda v, s: v.zero_(), lambda v, s: torch.add(v, s, out=v),
]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(VIEWS), st.sampled_from(WRITES + [None]), st.integers(-3, 3), st.booleans()), max_size=6))
def test_views_and_writes_as_on_the_cpu(plan):
    found = []
    for device in ("cpu", "xla"):
        t = torch.arange(24.0).view(4, 6).to(device)
        seen = []
        for view, write, number, ends in plan:
            v = view(t)
            overlaps = v.numel() and 0 in v.stride() or view is VIEWS[5] or view is VIEWS[8]
            if write is not None and not overlaps:
                write(v, float(number))
            seen.append((v + 0.25).cpu() if ends else v + 0.25)
        found.append([t.cpu(), *(s.cpu() for s in seen)])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b)


def test_a_fill_takes_no_memory_that_is_still_read():
    x = torch.arange(25.0).view(5, 5).to("xla").requires_grad_()
    value = x.trace().detach()
    (grad,) = torch.autograd.grad(x.trace(), [x])  # filled with ones at places, in the same program
    assert value.item() == 60 and torch.equal(grad.cpu(), torch.eye(5))


def test_results_have_the_shapes_their_programs_give():
    i = torch.randn(3, 2, 4)
    found = []
    for device in ("cpu", "xla"):
        x = i.clone().to(device).requires_grad_()
        ones, zeros = torch.ones(2, device=device), torch.zeros(2, device=device)
        out = torch.native_batch_norm(x, ones, zeros, zeros, ones, False, 0.1, 1e-5)[0]
        out.square().sum().backward()
        found.append((out.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(*found)


def test_what_the_host_writes_and_what_it_reads():
    t = torch.zeros(4, device="xla")
    u = t + 1
    t[1:3] = torch.tensor([5.0, 6.0])  # after u was recorded: u must not see it
    assert t.tolist() == [0, 5, 6, 0] and u.tolist() == [1, 1, 1, 1]
    t.copy_(torch.full((4,), 9.0))
    w = t * 1.5
    t.resize_(6)
    assert w.tolist() == [13.5] * 4 and t[:4].tolist() == [9.0] * 4
    assert t[:4].nonzero().shape == (4, 1) and "aten::nonzero" in met.counter_names()
    assert torch.view_as_real(torch.view_as_complex(torch.ones(3, 2, device="xla")) + 1).tolist() == [[2.0, 1.0]] * 3


@pytest.mark.parametrize("worst", [3.0, float("inf"), float("nan")])
def test_the_scaler_finds_what_is_not_finite(worst):
    found = []
    for device in ("cpu", "xla"):
        grads = [torch.tensor([1.0, worst], device=device), torch.full((2, 2), 8.0, device=device)]
        state = [torch.zeros((), device=device), torch.full((), 4.0, device=device), torch.full((), 1, device=device, dtype=torch.int32)]
        torch._amp_foreach_non_finite_check_and_unscale_(grads, state[0], torch.full((), 0.25, device=device))
        torch._amp_update_scale_(state[1], state[2], state[0], 2.0, 0.5, 2)
        found.append([t.cpu() for t in grads + state])
    torch.testing.assert_close(*found, equal_nan=True)


def test_a_failed_step_is_no_silence():
    small = torch.zeros(4, device="xla")
    with pytest.raises(RuntimeError):
        (small + torch.zeros(5, device="xla")).cpu()
    assert (small + 1).tolist() == [1.0] * 4
    large = torch.zeros(6, 1024**3, device="xla")
    with pytest.raises(torch.OutOfMemoryError, match="largest in use"):
        xm.mark_step()
    with pytest.raises(RuntimeError, match="a step that failed"):
        large.sum()
    assert (small + 2).tolist() == [2.0] * 4


def test_a_compiled_model_on_recorded_values():
    m = nn.Linear(4, 3).to("xla")
    x = (torch.arange(24.0, device="xla").view(6, 4) * 2).t().contiguous().t()
    run = torch.compile(m, backend="neuron")
    torch.testing.assert_close(run(x + 1).cpu(), m(x + 1).cpu())
    run(x).sum().backward()
    assert torch.equal(m.bias.grad.cpu(), torch.full((3,), 6.0))


SCRIPT = """
import sys
import torch, torch_xla.core.xla_model as xm, torch_xla.debug.metrics as met
sys.path.insert(0, sys.argv[1])
from test_lazy import train
losses, _ = train(xm.xla_device(), 3)
print(losses, met.counter_value("CacheMade"), met.counter_value("CacheFound"))
"""


def test_a_second_process_makes_nothing(tmp_path):
    env = {**os.environ, "NEURON_COMPILE_CACHE_URL": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "x"),
           "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat"}  # fmt: skip
    lines = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", SCRIPT, str(Path(__file__).parent)], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
        lines.append(done.stdout.strip())
    losses, made, found = lines[0].rsplit(" ", 2)
    assert int(made) >= 2 and found == "None"
    assert lines[1] == f"{losses} None {made}"


OPS = ("addmm as_strided_scatter cumsum diagonal_scatter flip gather index_add index_fill index_put masked_fill "
       "nn.functional.batch_norm nn.functional.conv2d nn.functional.layer_norm roll scatter_add select_scatter "
       "slice_scatter softmax std trace tril unfold").split()  # fmt: skip


def test_operators_and_their_gradients_as_on_the_cpu():
    sys.path.insert(0, str(Path(__file__).parent))
    from device_sweep import infos, on, run, samples, why_different

    checked, bad = set(), []
    for info in infos()[0]:
        if info.name in OPS:
            torch.manual_seed(0)
            for sample, grad in samples(info, torch.float32, 2):
                wanted = run(info, on("cpu", sample), grad)
                found = run(info, on("xla", sample), grad)
                xm.mark_step()
                bad += [(info.name, why)] if (why := why_different(found, wanted)) else []
                checked.add(info.name)
    assert not bad and checked == set(OPS)


def test_batch_norm_writes_its_statistics_in_the_program():
    found, before = [], torch.neuron.fallbacks()
    for device in ("cpu", "xla", "neuron"):
        torch.manual_seed(0)
        m = nn.BatchNorm1d(4).to(device)
        x = torch.randn(6, 4).to(device).requires_grad_()
        out = m(x)
        out.square().sum().backward()
        m.eval()
        found.append([t.detach().cpu() for t in (out, m.running_mean, m.running_var, m.weight.grad, m(x))])
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])
    assert torch.neuron.fallbacks() == before
