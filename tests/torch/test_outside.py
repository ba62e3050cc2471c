"""What packages from outside ask of the devices: peft, accelerate, transformers' experts, torch's own checkpoints and files."""

import copy
import io
import os
import re
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")
import torch_neuronx  # noqa: E402
import torch_xla  # noqa: E402

from trine import progress  # noqa: E402

DEVICES = ["neuron", "xla"]


def saved(data, **how):
    file = io.BytesIO()
    torch.save(data, file, **how)
    file.seek(0)
    return file


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_on_xla_draws_again_what_it_drew(reentrant):
    x = torch.ones(64, device="xla", requires_grad=True)
    out = torch.utils.checkpoint.checkpoint(torch.nn.Dropout(0.5), x, use_reentrant=reentrant)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach()) and 0 < (x.grad == 0).sum() < 64


def test_torch_xla_is_the_device_module():
    assert torch.get_device_module("xla").device_count() == torch.neuron.device_count()
    state = torch.xla.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="xla"):
        torch.rand(2, device="xla")
    assert torch.equal(torch.xla.get_rng_state(), state)
    x = torch.ones(3, device="xla") + 1
    torch.xla.synchronize()
    assert x.tolist() == [2.0] * 3


def test_the_parts_of_torch_xla_are_there_unasked():
    x = torch.ones(4, device="xla")
    assert torch_xla._XLAC._xla_get_tensor_id(x) == torch_xla._XLAC._xla_get_tensor_id(x[1:])  # peft's save_pretrained
    assert torch_xla.core.xla_model.xla_device().type == "xla"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch_xla.nothing


@pytest.mark.parametrize("is_zip", [True, False])
def test_tensors_of_xla_are_loaded_where_they_were(is_zip):
    kept = torch.arange(3.0, device="xla", requires_grad=True)
    tensors = {"a": kept, "p": torch.nn.Parameter(kept.detach()), "v": kept.detach()[1:]}
    back = torch.load(saved(tensors, _use_new_zipfile_serialization=is_zip))
    assert {t.device.type for t in back.values()} == {"xla"}
    assert back["a"].requires_grad and back["a"].is_leaf and isinstance(back["p"], torch.nn.Parameter)
    assert [t.tolist() for t in back.values()] == [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, 2.0]]


@pytest.mark.parametrize("to", ["xla", "xla:0", torch.device("xla")])
def test_tensors_of_others_are_loaded_to_xla(to):
    for made in (torch.arange(3.0), torch.arange(3.0, device="neuron"), torch.arange(3.0, device="xla")):
        back = torch.load(saved({"w": made, "same": made[1:]}), map_location=to)
        assert back["w"].device == torch.device("xla:0") and back["w"].tolist() == [0.0, 1.0, 2.0] and back["same"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_stream_is_a_block_and_tensors_are_recorded_on_it(device):
    s, x = torch.neuron.Stream(), torch.ones(3, device=device)
    before = torch.neuron.current_stream()
    with s as entered:
        x.record_stream(s)
        first = s.record_event(torch.neuron.Event(enable_timing=True))
        assert s == torch.neuron.current_stream() != before
    assert isinstance(entered, torch.Stream) and before == torch.neuron.current_stream() and s.device.type == "neuron"
    x.record_stream(torch.neuron.current_stream())
    last = torch.neuron.Event(enable_timing=True)
    last.record()
    s.wait_event(last)
    assert first.elapsed_time(last) >= 0 and (x + x).tolist() == [2.0] * 3


def test_a_trace_says_nothing_about_torchs_own_classes():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        torch_neuronx.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64, torch.uint8])
def test_histograms_of_whole_numbers_too(device, dtype):
    x = torch.tensor([0, 1, 1, 3, 7, 2, 9, 3], dtype=dtype)
    for bins, low, high in ((8, 0, 7), (3, 1, 8), (4, 0, 0)):
        got = torch.histc(x.to(device), bins, low, high)
        assert got.dtype is dtype and got.tolist() == torch.histc(x.double(), bins, low, high).tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_experts_are_chosen_as_on_the_cpu(device):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.MixtralConfig(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                        num_key_value_heads=1, num_local_experts=4)  # fmt: skip
    model, ids = transformers.MixtralForCausalLM(config), torch.randint(0, 50, (2, 7))
    other = copy.deepcopy(model).to(device)
    got, want = (m(i, labels=i) for m, i in ((other, ids.to(device)), (model, ids)))
    torch.testing.assert_close(got.logits.cpu(), want.logits, rtol=1e-4, atol=1e-5)
    for out in (got, want):
        out.loss.backward()
    experts = "model.layers.0.mlp.experts.down_proj"
    torch.testing.assert_close(other.get_parameter(experts).grad.cpu(), model.get_parameter(experts).grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_out_of_memory_says_which_tensors(device):
    kept = torch.zeros(3, 1000, 1000, device=device)
    torch_xla.sync()
    with pytest.raises(torch.OutOfMemoryError, match=r"(?s)bf16\[12,1073741824\] needs.*MB  .*f32\[3,1000,1000\].*try a smaller batch"):
        large = torch.zeros(12, 2**30, dtype=torch.bfloat16, device=device)
        torch_xla.sync()
        del large
    assert kept.sum().item() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_devices_that_differ_are_named(device):
    on, off = torch.ones(2, 2, device=device), torch.ones(2, 2)
    for call in (torch.mm, lambda a, b: torch.cat([a, b]), lambda a, b: torch.add(b, b, out=a)):
        with pytest.raises(RuntimeError, match=rf"found a tensor on cpu of shape \[2, 2\] among tensors on {device}:0.*\.to\(\"{device}:0\"\)"):
            call(on, off)
    with pytest.raises(RuntimeError, match=f"{device}:0|{device}:1"):
        on + torch.ones(2, 2, device=f"{device}:1")
    with pytest.raises(RuntimeError, match=f"found a tensor on {device}:1 of shape .2, 2. among tensors on {device}:0"):
        on @ torch.ones(2, 2, device=f"{device}:1")


def test_an_operand_is_brought_as_torch_xla_does():
    """Of the operators of two tensors alone; what they are written into stays where it is."""
    on, off = torch.full((2, 3), 6.0, device="xla"), torch.arange(1.0, 4)
    for call in (torch.add, torch.sub, torch.mul, torch.div, torch.fmod, torch.pow):
        assert call(on, off).device == on.device
        assert torch.equal(call(on, off).cpu(), call(on.cpu(), off)) and torch.equal(call(off, on).cpu(), call(off, on.cpu()))
    weight = torch.nn.Parameter(on.clone())
    (weight * off).sum().backward()
    assert weight.grad.device == on.device and torch.equal(weight.grad.cpu(), off.expand(2, 3))
    assert torch.equal(on.mul_(off).cpu(), 6 * off.expand(2, 3))
    with pytest.raises(RuntimeError, match="found a tensor on cpu of shape"):
        off.expand(2, 3).clone().mul_(on)
    with pytest.raises(RuntimeError, match="neuron:0 and cpu"):
        torch.ones(2, 3, device="neuron") * off


ELSEWHERE = """
import sys, torch
for n in (3, 4):
    x = torch.ones(n, device="xla") * 2
    x.tolist()
print(torch.jit.load(sys.argv[1])(torch.ones(1, 2)).tolist())
"""


def test_what_costs_time_is_said(tmp_path):
    """A bucket that cannot be had, once; a trace for another chip; every program that is compiled."""
    layer = torch.nn.Linear(2, 2)
    torch.jit.save(torch_neuronx.trace(layer, torch.ones(1, 2)), tmp_path / "t.pt")
    chosen = {"TRINE_INSTANCE": "trn2.3xlarge", "NEURON_COMPILE_CACHE_URL": "s3://nothing", "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
              "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "XDG_CACHE_HOME": str(tmp_path)}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path / "t.pt"], env=os.environ | chosen, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(layer(torch.ones(1, 2)).tolist())
    assert done.stderr.count("the compile cache cannot be used, so every process compiles anew: ") == 1 and "s3://nothing" in done.stderr
    assert "found a trace for trn1, expected one for trn2" in done.stderr and "compiled again" in done.stderr
    assert len(re.findall(r"^\[NeuronCC\] compiled step, \d+ ops, in .* s, not cached$", done.stderr, re.M)) == 2


def test_the_compiler_is_silenced(capfd, monkeypatch):
    for flags, said in (("-O1", "[NeuronCC] compiled trace, "), ("-O1 -q", "")):
        monkeypatch.setenv("NEURON_CC_FLAGS", flags)
        torch_neuronx.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
        err = capfd.readouterr().err
        assert said in err if said else not err


def test_more_processes_than_cores_is_said(capsys, monkeypatch, request):
    request.addfinalizer(lambda: torch.neuron.set_device(0))  # xla_device() makes that of its rank the current one
    monkeypatch.setattr(progress, "_shown", set())
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "32")
    for _ in range(2):
        torch_xla.core.xla_model.xla_device()
    assert capsys.readouterr().err.count("found 32 processes on this machine, expected at most 2") == 1
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(progress, "_shown", set())
    torch_xla.core.xla_model.xla_device()
    assert not capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64])
def test_the_largest_are_those_of_the_cpu(dtype):
    x = torch.randperm(60).view(3, 20).to(dtype)
    for dim in (0, 1):
        for largest in (True, False):
            got, want = (torch.topk(v, 3, dim, largest) for v in (x.to("neuron"), x))
            assert torch.equal(got.values.cpu(), want.values) and torch.equal(got.indices.cpu(), want.indices)
    if dtype.is_floating_point:
        y = torch.tensor([1.0, -torch.nan, -0.0, torch.inf, 0.0, torch.nan], dtype=dtype)
        assert torch.topk(y.to("neuron"), 6).indices.tolist() == [1, 5, 3, 0, 2, 4]


def test_numbers_that_are_tensors_stay_on_the_device():
    before = torch.neuron.fallbacks()
    x = torch.arange(6, device="neuron")
    assert (x % 4).tolist() == [0, 1, 2, 3, 0, 1] and ((x > 2) & torch.tensor(True)).tolist() == [False] * 3 + [True] * 3
    assert torch.neuron.fallbacks() == before


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("mask", [None, "causal", "bool", "float"])
def test_attention_is_one_op_without_gradients(heads, mask):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, heads, 5, 8), torch.randn(2, heads, 5, 6)
    given = {"bool": torch.rand(2, 1, 3, 5) > 0.3, "float": torch.randn(3, 5)}.get(mask)

    def run(*tensors):
        rest = None if given is None else given.to(tensors[0].device)
        return torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=rest, is_causal=mask == "causal", enable_gqa=heads == 2)

    want = run(q, k, v)
    q, k, v = (t.to("neuron") for t in (q, k, v))
    run(q, k, v)
    before = torch.neuron.programs()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.testing.assert_close(run(q, k, v).cpu(), want, rtol=1e-4, atol=1e-5)
    assert "aten::bmm" not in {e.name for e in seen.events()} and torch.neuron.programs() == before
    with torch.inference_mode():
        torch.testing.assert_close(run(q, k, v).cpu(), want, rtol=1e-4, atol=1e-5)
    q.requires_grad_()
    got = run(q, k, v)
    torch.testing.assert_close(got.detach().cpu(), want, rtol=1e-4, atol=1e-5)
    assert torch.autograd.grad(got.sum(), q)[0].abs().sum() > 0
