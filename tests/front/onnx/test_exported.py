"""Models that PyTorch exports, with random weights: what the exporter writes, against what PyTorch computes."""

import warnings

import numpy as np
import onnx
import pytest
from front.onnx.checking import check, write_case

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


class Wrapped(torch.nn.Module):
    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *args):
        return self.call(self.model, *args)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(99, 8)
        self.lstm = torch.nn.LSTM(8, 12, 2, bidirectional=True, batch_first=True)
        self.gru = torch.nn.GRU(24, 6, batch_first=True)

    def forward(self, ids):
        return self.gru(self.lstm(self.words(ids))[0])[0]


class Picture(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.GroupNorm(4, 8)
        self.up, self.shuffle = torch.nn.ConvTranspose2d(8, 8, 4, 2, 1), torch.nn.PixelShuffle(2)

    def forward(self, x):
        f = torch.nn.functional
        y = f.silu(self.norm(self.conv(x)))
        z = self.up(f.avg_pool2d(y, 2))
        resized = f.interpolate(y, scale_factor=2, mode="bilinear"), f.interpolate(z, size=(12, 12), mode="nearest")
        pooled = f.adaptive_avg_pool2d(resized[0], (4, 4)), f.pad(x, (1, 2, 1, 1), mode="reflect")
        return z, *resized, *pooled, self.shuffle(z), x.flip(2), torch.topk(x, 3).values, torch.einsum("bchw,bcwk->bhk", x, x)


def models():
    t = transformers
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    eager = {"attn_implementation": "eager"}
    ids, mask = torch.randint(0, 99, (2, 10)), torch.ones(2, 10, dtype=torch.long)
    mask[1, 7:] = 0
    image = torch.randn(1, 3, 32, 32)
    bert = t.BertModel(t.BertConfig(vocab_size=99, **small, **eager))
    open_dims = {"a": {0: "batch", 1: "sequence"}, "b": {0: "batch", 1: "sequence"}}
    yield "bert", 14, bert, lambda m, i, a: m(i, attention_mask=a).last_hidden_state, (ids, mask), open_dims
    vit = t.ViTModel(t.ViTConfig(image_size=32, patch_size=8, **small, **eager))
    yield "vit", 18, vit, lambda m, x: m(x).last_hidden_state, (image,), {}
    t5 = t.T5EncoderModel(t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4))
    yield "t5", 17, t5, lambda m, i: m(i).last_hidden_state, (ids,), {}
    stages = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
    resnet = t.ResNetModel(t.ResNetConfig(embedding_size=8, **stages))
    yield "resnet", 13, resnet, lambda m, x: m(x).last_hidden_state, (image,), {}
    convnext = t.ConvNextModel(t.ConvNextConfig(image_size=32, **stages))
    yield "convnext", 16, convnext, lambda m, x: m(x).last_hidden_state, (image,), {}
    yield "recurrent", 17, Recurrent(), lambda m, i: m(i), (ids,), {}
    yield "picture", 17, Picture(), lambda m, x: m(x), (image,), {}


def export(folder, name, opset, model, call, args, open_dims):
    model = Wrapped(model, call).eval()
    with torch.no_grad():
        out = model(*args)
    path = folder / f"{name}.onnx"
    names = ["a", "b"][: len(args)]
    torch.onnx.export(model, args, str(path), input_names=names, opset_version=opset, dynamo=False, dynamic_axes=open_dims)
    outputs = [o.numpy() for o in (out if isinstance(out, tuple) else (out,))]
    return write_case(folder / name, onnx.load(path), [np.asarray(a) for a in args], outputs)


@pytest.mark.slow
def test_values(trine, tmp_path):
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paths = [export(tmp_path, *row) for row in models()]
    wrong = {name: why for name, why in check(trine, paths, "--atol", "0.0001").items() if why}
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())
