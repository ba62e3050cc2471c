"""torch.compile(backend="neuron"): values, gradients, mutation, new shapes, fallbacks, random numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trine.torch import backend, pieces  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(model, **options):
    return torch.compile(model, backend="neuron", **options)


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def step(model, x):
    loss = model(x).square().mean()
    model.zero_grad()
    loss.backward()
    return loss.item(), [p.grad.clone() for p in model.parameters()]


def test_values_and_gradients():
    model, x = mlp(), torch.randn(5, 8)
    want_loss, want = step(model, x)
    loss, got = step(compiled(model), x)
    assert loss == pytest.approx(want_loss, rel=1e-5)
    for g, w in zip(got, want):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-6)


def test_training_sees_new_weights():
    x, y = torch.randn(16, 8), torch.randn(16, 4)
    losses = []
    for wrap in (lambda m: m, compiled):
        torch.manual_seed(3)
        model = mlp()
        run, optimizer = wrap(model), torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(5):
            loss = (run(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_write_past_the_version_counter_is_seen():
    model, x = nn.Linear(64, 64).eval(), torch.randn(64, 64)
    run = compiled(model)
    with torch.no_grad():
        for _ in range(3):
            run(x)
        model.weight.data.mul_(2)
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)


def test_buffers_are_written():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 3))

        def forward(self, x, at):
            self.cache.index_copy_(0, at, x)
            return self.cache.sum()

    model, plain = Counting(), Counting()
    run = compiled(model, fullgraph=True)
    with torch.no_grad():
        for i in range(3):
            x, at = torch.randn(1, 3), torch.tensor([i])
            torch.testing.assert_close(run(x, at), plain(x, at))
    torch.testing.assert_close(model.cache, plain.cache)


def test_batch_norm_statistics():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()).train()
    other = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()).train()
    other.load_state_dict(model.state_dict())
    run, x = compiled(model), torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(run(x), other(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model[1].running_var, other[1].running_var, rtol=1e-4, atol=1e-5)


def test_group_norm_whose_deviations_are_kept_for_its_gradient():
    model, x = nn.Sequential(nn.GroupNorm(4, 8), nn.SiLU()), torch.randn(2, 8, 8, 8, requires_grad=True)
    want = torch.autograd.grad(model(x).square().sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(compiled(model)(x).square().sum(), x)[0], want, rtol=1e-4, atol=1e-5)


def test_new_shapes_compile_again():
    model = mlp().eval()
    run = compiled(model)
    with torch.no_grad():
        for n in (2, 3, 5, 3):
            x = torch.randn(n, 8)
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


def test_symbolic_shapes_are_specialised():
    model = mlp().eval()
    run = compiled(model, dynamic=True)
    with torch.no_grad():
        for n in (2, 3, 7):
            x = torch.randn(n, 8)
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


def test_an_op_without_a_row_runs_on_the_cpu_and_is_counted():
    def f(x):
        return torch.linalg.svdvals(x * 2).sum() + 1

    pieces.FALLBACKS.clear()
    x = torch.randn(4, 4)
    torch.testing.assert_close(compiled(f)(x), f(x))
    assert sum(pieces.FALLBACKS.values()) == 1 and "svd" in next(iter(pieces.FALLBACKS))


def test_dropout_follows_the_seed():
    run, x = compiled(nn.Dropout(0.5)), torch.ones(1000)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(run(x))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert set(drawn[0].tolist()) == {0.0, 2.0}


def test_inputs_in_other_orders_are_not_copied():
    run = compiled(lambda a, b: a @ b)
    a, b = torch.randn(6, 4).t(), torch.randn(5, 6).t()
    torch.testing.assert_close(run(a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_an_unknown_option_is_refused():
    with pytest.raises(Exception, match="has no option"):
        compiled(lambda x: x + 1, options={"speed": 11})(torch.ones(2))


def test_a_graph_break_names_its_line(caplog):
    def split(x):
        y = x * 2
        print("between")
        return y + 1

    with caplog.at_level("WARNING", logger="trine.torch"):
        compiled(split)(torch.ones(2))
    said = [r.getMessage() for r in caplog.records if r.name == "trine.torch"]
    assert any("test_compile.py:" in m and 'print("between")' in m for m in said), said


def test_a_second_adapter_compiles_nothing():
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(8, 8).requires_grad_(False)
            self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    model, x = Adapted(), torch.randn(4, 8)
    run = compiled(model)
    run(x).sum().backward()
    before = len(backend.COMPILED)
    other = {k: torch.randn_like(v) for k, v in model.state_dict().items() if not k.startswith("base")}
    model.load_state_dict(other, strict=False)
    model.zero_grad()
    out = run(x)
    out.sum().backward()
    torch.testing.assert_close(out, model(x), rtol=1e-4, atol=1e-5)
    assert len(backend.COMPILED) == before and model.base.weight.grad is None


def test_what_was_compiled_is_kept():
    before = len(backend.COMPILED)
    compiled(lambda x: x + 1)(torch.ones(2))
    assert len(backend.COMPILED) == before + 1


def test_buckets_fill_up_and_cut_back():
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 5)

        def forward(self, ids, mask):
            x = self.embed(ids)
            scores = (x @ x.transpose(1, 2)).masked_fill(mask[:, None, :] == 0, -1e9)
            return self.out(scores.softmax(-1) @ x), ids.shape[1]

    torch._dynamo.reset()
    model = Masked().eval()
    compiled = torch.compile(model, backend="neuron", dynamic=True, options={"buckets": {0: [2, 4], 1: [16, 32]}})
    before = len(backend.COMPILED)
    with torch.no_grad():
        for batch, length in ((3, 5), (3, 12), (4, 16), (4, 9)):
            ids = torch.randint(1, 50, (batch, length))
            got, wanted = compiled(ids, torch.ones_like(ids)), model(ids, torch.ones_like(ids))
            torch.testing.assert_close(got[0], wanted[0])
            assert got[1] == wanted[1] == length
    assert len(backend.COMPILED) - before == 1
    with pytest.raises(Exception, match="expected a list of sizes"):
        torch.compile(model, backend="neuron", options={"buckets": [0]})(ids, ids)


SCRIPT = """
import torch
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
loss = torch.compile(m, backend="neuron")(torch.ones(3, 4)).square().sum()
loss.backward()
from trine.torch import cache
print(loss.item(), m[0].weight.grad.sum().item(), cache.COUNTS["made"], cache.COUNTS["found"])
"""


def test_a_second_process_compiles_nothing(tmp_path):
    env = {**os.environ, "NEURON_COMPILE_CACHE_URL": str(tmp_path), "PYTHONPATH": str(ROOT / "python")}
    runs = [subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=env) for _ in range(2)]
    first, second = [r.stdout.split() for r in runs]
    assert first[:2] == second[:2] and first[2:] == ["2", "0"] and second[2:] == ["0", "2"], runs[0].stderr[-2000:]


def test_views_of_weights_are_kept_as_views():
    weight, x = torch.randn(6, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    kept = []

    def keep(t):
        kept.append(t)
        return t

    f = torch.compile(lambda w, x: torch.tanh(x @ w.t()) @ w, backend="neuron")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        out = f(weight, x)
    assert {t.data_ptr() for t in kept if t.numel() == weight.numel()} == {weight.data_ptr()}
    out.sum().backward()


def test_results_lie_as_torch_says():
    x = torch.randn(2, 3, 4)
    for f in (lambda x: (x * 2).transpose(1, 2), lambda x: (x + 1).permute(2, 0, 1) * 1, lambda x: x.exp().t_copy() if x.dim() == 2 else x.exp()):
        got, want = torch.compile(f, backend="neuron")(x), f(x)
        assert got.stride() == want.stride()
        torch.testing.assert_close(got, want)


def test_large_results_are_written_to_the_same_pages():
    pytest.importorskip("trine._torch")
    f = torch.compile(lambda x: x + 1, backend="neuron")
    x = torch.zeros(2**20 + 3)
    first = f(x)
    place, again = first.data_ptr(), f(x)
    assert again.data_ptr() != place  # the first is still held
    del first
    assert f(x).data_ptr() == place
    again.resize_(2**21)  # as any tensor's


def test_a_model_made_in_inference_mode_runs_and_its_weights_may_change():
    with torch.inference_mode():
        model = torch.nn.Linear(8, 4).to("neuron")
        x = torch.ones(2, 8, device="neuron")
        compiled = torch.compile(model, backend="neuron")
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
            model.weight[1, 3] += 2  # torch counts no writes of inference tensors
