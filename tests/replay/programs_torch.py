"""Graphs of the corpus that torch makes: one call of every overload that has a row, and modules forward and backward."""

import json
import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from replay.torch_graphs import record

SKIPPED = ("linalg.", "sparse", "_segment_reduce", "nn.functional.ctc_loss", "to_sparse", "special.airy")


# one call of each row


class Calls(TorchDispatchMode):
    """The first call of each overload that has a row and whose tensors are small."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted, self.found = wanted, {}

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        from trine.torch.emit import overload_name

        kwargs = kwargs or {}
        name = overload_name(op)
        graph = self.call(op, args, kwargs) if name in self.wanted and name not in self.found else None
        out = op(*args, **kwargs)
        if graph is not None:
            self.finish(name, *graph, out)
        return out

    def call(self, op, args, kwargs):
        graph, held = torch.fx.Graph(), []

        def taken(a):
            if not isinstance(a, torch.Tensor):
                return a
            node = graph.placeholder(f"x{len(held)}")
            node.meta["val"] = a.detach()
            held.append(a)
            return node

        own = tree_map(taken, (tuple(args), dict(kwargs)))
        if not held or any(a.numel() > 4096 or not a.numel() for a in held):
            return None
        return graph, graph.call_function(op, *own)

    def finish(self, name, graph, node, out):
        flat = tree_flatten(out)[0]
        if not flat or not all(isinstance(t, torch.Tensor) for t in flat):
            return
        node.meta["val"] = out
        results = [node]
        if isinstance(out, (tuple, list)):
            results = []
            for i, part in enumerate(out):
                results.append(graph.call_function(__import__("operator").getitem, (node, i)))
                results[-1].meta["val"] = part
        graph.output(results)
        try:
            self.found[name] = record(graph)
        except TypeError:  # an argument that no file holds, such as a generator
            pass


def rows():
    from torch.testing._internal.common_methods_invocations import op_db

    from trine.torch.rows import ROWS

    calls = Calls(ROWS)
    for dtype in (torch.float32, torch.int64):
        for info in op_db:
            if info.name.startswith(SKIPPED) or dtype not in info.dtypes:
                continue
            torch.manual_seed(0)
            try:
                for i, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point and info.supports_autograd)):
                    if i == 3:
                        break
                    with calls:
                        out = info(sample.input, *sample.args, **sample.kwargs)
                        tensors = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
                        if tensors:
                            torch.autograd.backward([t.sum() for t in tensors])
            except Exception:  # torch's own limits
                continue
    return dict(sorted(calls.found.items()))


# modules


class Block(nn.Module):
    def __init__(self, wide, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.b = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.n, self.m = (nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        return F.relu(x + self.m(self.b(F.relu(self.n(self.a(x))))))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.block, self.head = nn.Embedding(500, 64), Block(64, 4), nn.Linear(64, 500, bias=False)

    def forward(self, tokens, labels):
        return F.cross_entropy(self.head(self.block(self.table(tokens))).flatten(0, 1), labels.flatten())


class Function(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def r(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def tokens(*shape):
    return torch.randint(0, 500, shape)


def modules():
    """name -> (module, arguments, trained)"""
    half = torch.bfloat16
    yield "linear gelu", nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)), (r(8, 64),), False
    yield "linear gelu trained", nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)), (r(8, 64),), True
    yield "block", Block(128, 4), (r(2, 64, 128),), False
    yield "block half", Block(128, 4).to(half), (r(1, 64, 128, dtype=half),), False
    yield "block trained", Block(128, 4), (r(2, 32, 128),), True
    yield "residual", Residual(16).eval(), (r(2, 16, 14, 14),), False
    yield "residual trained", Residual(16), (r(2, 16, 14, 14),), True
    yield "words trained", Words(), (tokens(2, 16), tokens(2, 16)), True
    yield "pooled", nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (r(2, 3, 32, 32),), False
    yield "transposed convolution", nn.ConvTranspose2d(8, 4, 4, 2, 1), (r(1, 8, 8, 8),), False
    yield "depthwise", nn.Conv1d(16, 16, 5, padding=2, groups=16), (r(2, 16, 40),), False
    yield "group norm", nn.GroupNorm(4, 16), (r(2, 16, 9, 9),), True
    yield "lstm", nn.LSTM(16, 32, batch_first=True), (r(2, 6, 16),), False
    yield "gru", nn.GRU(16, 32), (r(6, 2, 16),), False
    yield "multihead", nn.MultiheadAttention(64, 4, batch_first=True).eval(), (r(2, 10, 64),) * 3, False
    yield "encoder layer", nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(), (r(2, 10, 64),), False
    yield "channels last", nn.Conv2d(8, 8, 3).to(memory_format=torch.channels_last), (r(1, 8, 10, 10).to(memory_format=torch.channels_last),), False
    yield "indexing", Function(lambda x, i: (x[i], x[:, i % 7], x.index_add(0, i, x[i]), x.gather(1, i[:, None]))), (r(20, 9), tokens(5) % 9), False
    yield "sorting", Function(lambda x: (*x.sort(-1), *x.topk(3), x.argmax(0), x.cumsum(1), x.median())), (r(6, 30),), False
    yield "shapes", Function(lambda x: (x.unfold(1, 3, 2), x.roll(2, 0), x.flip(1), x.tril(), F.pad(x, (1, 2)), x.repeat(2, 1), torch.cat([x, x], 1))), (r(8, 9),), False
    yield "interpolated", Function(lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 9), mode="bilinear"))), (r(1, 4, 6, 6),), False
    yield "losses", Function(lambda x, y: (F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.kl_div(x.log_softmax(1), y.softmax(1)), F.cosine_similarity(x, y))), (r(8, 20), r(8, 20)), False


def exported():
    from trine.torch import export

    for name, module, args, trained in modules():
        torch.manual_seed(0)
        if trained:
            graph = export.with_gradients(module, args)
        else:
            graph = export.exported(module, args).graph
        yield name, record(graph)


def programs():
    """{name: (JSON of the graph, what is done with it)}"""
    warnings.simplefilter("ignore")
    out = {f"row {name}": (data, {"chips": []}) for name, data in rows().items()}
    out |= {name: (data, {"chips": ["trn1", "trn2"], "cost": 4.0}) for name, data in exported()}
    return {name: (json.dumps(data).encode(), about) for name, (data, about) in out.items()}
