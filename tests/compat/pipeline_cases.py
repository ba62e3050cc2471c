"""neuronx_distributed's pipelines over two stages and two batches against whole modules in one process.
Run by ranks.py with NXD_CPU_MODE=1."""

import torch
import torch.distributed as dist
from torch import nn

import neuronx_distributed as nxd
from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.pipeline import NxDPPModel
from neuronx_distributed.utils import get_device


def begin():
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(pipeline_model_parallel_size=2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x, skip):
        return x + self.b(torch.tanh(self.a(x))) + 0.1 * skip[1]


class Pair(nn.Module):
    def forward(self, x):
        return x.detach(), 2 * x


class Model(nn.Module):
    """Tied embeddings, and values in a tuple that go past all stages."""

    def __init__(self, count=4):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.pair = nn.Embedding(10, 6), Pair()
        self.layers = nn.ModuleList(Layer() for _ in range(count))
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens, mask=None, labels=None, keep=0):
        x = self.embed(tokens if keep == 0 else tokens[:, -keep:])
        pair = self.pair(x)
        for layer in self.layers:
            x = layer(x, pair)
        logits = self.head(self.norm(x))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return loss, logits


def data(rank=None):
    found = torch.randint(0, 10, (8, 5), generator=torch.Generator().manual_seed(2))
    found = found if rank is None else found.chunk(2)[rank]
    return {"tokens": found, "labels": found.flip(1)}


def same(found, want, tolerance=1e-5):
    torch.testing.assert_close(found.detach().cpu(), want.detach(), rtol=tolerance, atol=tolerance)


def options(**more):
    return {"transformer_layer_cls": Layer, "num_microbatches": 4, "input_names": ["tokens", "labels"], "output_loss_value_spec": (True, False),
            "auto_partition": True, "leaf_module_cls": ["Pair"], **more}  # fmt: skip


def compared(model, whole, of=lambda p: p, tolerance=1e-5):
    theirs, seen = dict(whole.named_parameters()), 0
    for name, p in model.local_named_parameters():
        same(of(p), of(theirs["embed.weight" if name == "head.weight" else name]), tolerance)
        seen += 1
    assert seen >= 5


def case_pipeline_gradients(_):
    whole = Model()
    want, _ = whole(**data())
    want.backward()
    last = parallel_state.get_pipeline_model_parallel_rank() == 1
    for more in ({}, {"virtual_pipeline_size": 2}, {"auto_partition": False, "pipeline_cuts": ["layers.0"]}):
        model = NxDPPModel(Model(), **options(**more))
        loss = model.run_train(**data())
        assert (loss is None) != last
        if last:
            same(loss, want)
        compared(model, whole, lambda p: p.grad)
        model = NxDPPModel(Model(), **options(broadcast_and_average_loss=True, **more))
        same(model.run_eval(**data()), want)


def case_pipeline_is_trained_and_saved(folder):
    config = nxd.neuronx_distributed_config(pipeline_parallel_size=2, pipeline_config=options(), optimizer_config={"zero_one_enabled": True, "max_grad_norm": 0.1},
                                            activation_checkpoint_config="full")  # fmt: skip
    model = nxd.initialize_parallel_model(config, Model)
    optimizer = nxd.initialize_parallel_optimizer(config, torch.optim.AdamW, model.parameters(), lr=0.05)
    whole = Model()
    plain = torch.optim.AdamW(whole.parameters(), lr=0.05)
    for _ in range(2):
        optimizer.zero_grad()
        plain.zero_grad()
        model.run_train(**data(parallel_state.get_data_parallel_rank()))
        whole(**data())[0].backward()
        norm = nn.utils.clip_grad_norm_(whole.parameters(), 0.1)
        optimizer.step()
        plain.step()
        same(optimizer.grad_norm.reshape(()), norm, 1e-4)
    compared(model.module, whole, tolerance=1e-4)
    nxd.save_checkpoint(str(folder / "pipeline"), "t", model, optimizer)
    again = nxd.initialize_parallel_model(config, lambda: Model().apply(lambda m: None))
    with torch.no_grad():
        for p in again.parameters():
            p.zero_()
    nxd.load_checkpoint(str(folder / "pipeline"), "t", again)
    compared(again.module, whole, tolerance=1e-4)


def case_which_output_is_the_loss(_):
    from neuronx_distributed.pipeline.partition import loss_in

    loss, logits = torch.ones(()), torch.zeros(3)
    assert loss_in((logits, loss), (False, True)) is loss and loss_in({"logits": logits, "loss": loss}, {"loss": True}) is loss
    assert loss_in({"aux": None, "loss": loss, "logits": logits}, (True, False)) is loss


def case_layers_as_a_list(_):
    torch.manual_seed(1)
    layers = [nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)]
    torch.manual_seed(1)
    whole = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    model = NxDPPModel(layers, manual_pp_partition=True, manual_pp_loss_fn=nn.functional.mse_loss, num_microbatches=2, broadcast_and_average_loss=True)
    x, y = torch.randn(4, 4, generator=torch.Generator().manual_seed(1)), torch.zeros(4, 3)
    want = nn.functional.mse_loss(whole(x), y)
    want.backward()
    same(model.run_train(inputs=x, labels=y), want)
    theirs = dict(whole.named_parameters())
    for name, p in model.local_named_parameters():
        same(p.grad, theirs[name].grad)


def case_schedules(_):
    from neuronx_distributed.pipeline.scheduler import Train1F1BSchedule, TrainInterleavedSchedule

    def text(schedule):
        return " ".join(("F" if t.is_forward else "B") + f"{t.mb}" + f".{t.chunk}" * bool(t.chunk) for t in schedule)

    assert text(Train1F1BSchedule(4, 4, 2)) == "F0 F1 B0 F2 B1 F3 B2 B3"
    assert text(TrainInterleavedSchedule(4, 2, 2, 1)) == "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3"
    assert get_device().type == "cpu"
