"""What packages from outside ask of the devices: peft, accelerate, transformers' experts, torch's own checkpoints and files."""

import copy
import io
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")
import torch_neuronx  # noqa: E402
import torch_xla  # noqa: E402

DEVICES = ["neuron", "xla"]


def saved(data, **how):
    file = io.BytesIO()
    torch.save(data, file, **how)
    file.seek(0)
    return file


def test_the_parts_of_torch_xla_are_there_unasked():
    x = torch.ones(4, device="xla")
    assert torch_xla._XLAC._xla_get_tensor_id(x) == torch_xla._XLAC._xla_get_tensor_id(x[1:])  # peft's save_pretrained
    assert torch_xla.core.xla_model.xla_device().type == "xla"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch_xla.nothing


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
