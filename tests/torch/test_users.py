"""What people's programs do besides: recurrent and transformer layers, moving a model that is in use, generators, optimisers, errors."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")
from torch_xla.core import xla_model as xm  # noqa: E402
from torch_xla.debug import metrics  # noqa: E402

nn = torch.nn


def gradients(model, *inputs):
    out = model(*inputs)
    out = out[0] if isinstance(out, tuple) else out
    out.square().mean().backward()
    return [out.detach().cpu(), *(p.grad.cpu() for p in model.parameters())]


@pytest.mark.parametrize("make", [lambda: nn.LSTM(4, 5, 2, bidirectional=True), lambda: nn.GRU(4, 5, bias=False), lambda: nn.RNN(4, 5)])
def test_recurrent_layers(make):
    torch.manual_seed(0)
    model, x = make(), torch.randn(3, 2, 4)
    other = copy.deepcopy(model).to("neuron")
    before = torch.neuron.fallbacks()
    for got, want in zip(gradients(other, x.to("neuron")), gradients(model, x)):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert torch.neuron.fallbacks() == before  # no cell ran on the CPU


def test_the_transformer_of_inference():
    torch.manual_seed(0)
    model, x = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval(), torch.randn(2, 5, 8)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    other = copy.deepcopy(model).to("neuron")
    with torch.no_grad():
        torch.testing.assert_close(other(x.to("neuron")).cpu(), model(x), rtol=1e-4, atol=1e-5)
        got, want = other(x.to("neuron"), src_key_padding_mask=mask.to("neuron")).cpu(), model(x, src_key_padding_mask=mask)
    torch.testing.assert_close(got[~mask], want[~mask], rtol=1e-4, atol=1e-5)


def test_a_model_in_use_is_moved():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    first, optimizer = model[0].weight, torch.optim.SGD(model.parameters(), 0.1)
    out = model(torch.ones(1, 2))  # alive, and holds the weights
    model.to("neuron")
    assert model[0].weight is first and model[1].weight is first and first.device.type == "neuron"
    before = first.detach().cpu()
    model(torch.ones(1, 2, device="neuron")).sum().backward()
    optimizer.step()  # made before the move
    assert not torch.equal(first.detach().cpu(), before)
    model.cpu().double()
    assert first.dtype is torch.float64 and out.shape == (1, 2)


def test_a_generator_decides():
    for draw in (
        lambda g: torch.randn(4, device="neuron", generator=g),
        lambda g: torch.empty(4, device="neuron").cauchy_(generator=g),  # on the CPU
        lambda g: torch.rand(4, device="xla", generator=g),
    ):
        g = torch.Generator("neuron").manual_seed(7)
        state, first, second = g.get_state(), draw(g).tolist(), draw(g).tolist()
        assert draw(torch.Generator("neuron").manual_seed(7)).tolist() == first != second
        g.set_state(state)
        assert draw(g).tolist() == first
    with pytest.raises(RuntimeError, match="found a generator of cpu"):
        torch.randn(4, device="neuron", generator=torch.Generator())


def test_a_checkpoint_draws_again_what_it_drew():
    x = torch.ones(64, device="neuron", requires_grad=True)
    for reentrant in (True, False):
        out = torch.utils.checkpoint.checkpoint(nn.Dropout(0.5), x, use_reentrant=reentrant)
        (grad,) = torch.autograd.grad(out.sum(), x) if not reentrant else [None]
        if reentrant:
            out.sum().backward()
            grad = x.grad
        assert torch.equal(grad.cpu(), out.detach().cpu())


def test_the_accelerator_tells_of_memory():
    before, held = torch.accelerator.memory_allocated(), torch.empty(2**20, device="neuron")
    assert torch.accelerator.memory_allocated() - before == 2**22 == held.nbytes
    assert torch.accelerator.max_memory_allocated() >= torch.accelerator.memory_allocated()
    free, total = torch.accelerator.get_memory_info()
    assert (free, total) == torch.neuron.mem_get_info() and free < total
    torch.accelerator.empty_cache()


@pytest.mark.parametrize("make", [
    lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    lambda x: x.to_sparse(),
    lambda x: torch.sparse_coo_tensor(torch.zeros(1, 2, dtype=torch.long, device="neuron"), x, (2,)),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_what_the_device_does_not_hold(make):
    with pytest.raises(NotImplementedError, match="which the device neuron does not hold"):
        make(torch.ones(2, device="neuron"))


def test_a_buffer_that_is_written_and_given():
    cache = torch.zeros(2, 3)

    @torch.compile(backend="neuron")
    def step(x):
        cache[:, 1].copy_(x)
        return cache, cache.sum()

    for value in (1.0, 2.0):
        held, total = step(torch.full((2,), value))
        assert held.data_ptr() == cache.data_ptr() and total.item() == 2 * value == cache.sum().item()


def test_batch_norm_of_data():
    torch.manual_seed(0)
    model, x = nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4)
    other, before = copy.deepcopy(model).to("neuron"), torch.neuron.fallbacks()
    for got, want in zip(gradients(other, x.to("neuron")), gradients(model, x)):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert torch.neuron.fallbacks() == before


@pytest.mark.parametrize("bounds", [(0, 2.5), (0, 5, 2.5), (2.2, 4.9)])
def test_whole_numbers_between_fractions(bounds):
    for dtype in (torch.int64, torch.float32):
        assert torch.arange(*bounds, dtype=dtype, device="neuron").tolist() == torch.arange(*bounds, dtype=dtype).tolist()


@pytest.mark.parametrize("device", ["neuron", "xla"])
@pytest.mark.parametrize("make, options", [
    (torch.optim.AdamW, {}),
    (torch.optim.AdamW, {"amsgrad": True, "maximize": True}),
    (torch.optim.Adam, {"weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
])  # fmt: skip
def test_fused_optimisers_under_a_schedule(make, options, device):
    """As on the CPU, nothing of it there; a rate that changes is an input, so steps share their program."""
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[1].to(device)
    x, made, before = torch.randn(4, 8), [], torch.neuron.fallbacks()
    for model in models:
        optimizer = make(model.parameters(), lr=1e-2, fused=True, **options)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 10)
        for _ in range(5):
            model(x.to(next(model.parameters()).device)).square().sum().backward()
            optimizer.step(), schedule.step(), optimizer.zero_grad()
            xm.mark_step()
            made.append(metrics.counter_value("UncachedCompile") or 0)
    for a, b in zip(models[0].parameters(), models[1].parameters()):
        torch.testing.assert_close(a, b.cpu())
    assert torch.neuron.fallbacks() == before and made[-1] == made[-3]


def test_what_is_sent_changes_in_place():
    state = {"a": [torch.ones(2)], "b": (torch.zeros(1), 3)}
    assert xm.send_cpu_data_to_device(state, "xla") is state
    assert state["a"][0].device.type == state["b"][0].device.type == "xla" and state["b"][1] == 3
    assert xm._maybe_convert_to_cpu(state)["a"][0].device.type == "cpu"
