"""Run on two ranks: collectives and messages on streams, beside ops that are issued after them. Prints "rank N agrees"."""

import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("neuron")
rank, size = dist.get_rank(), dist.get_world_size()
torch.neuron.set_device(rank)
at = torch.device("neuron", rank)


def a_message_waits_on_one_stream_while_another_answers():
    """Each rank waits on `waiting` for what the other sends after it has computed on `working`: one stream alone would hang."""
    waiting, working = torch.neuron.Stream(), torch.neuron.Stream()
    arrived = torch.zeros(4, device=at)
    with waiting:
        dist.recv(arrived, 1 - rank)
        doubled = arrived * 2
    assert not waiting.query() or rank == 1
    if rank == 1:
        dist.barrier()
    with working:
        made = torch.full((4,), rank + 1.0, device=at) + 1
        dist.send(made.view(2, 2).t(), 1 - rank)
    if rank == 0:
        dist.barrier()
    torch.neuron.synchronize()
    assert doubled.tolist() == [2.0 * (3 - rank)] * 4


def sums_wait_for_what_they_add_and_are_waited_for():
    side, x = torch.neuron.Stream(), torch.arange(6.0, device=at).view(2, 3)
    for step in range(20):
        side.wait_stream(torch.neuron.current_stream())
        with side:
            part = (x * (rank + 1) + step).t()
            dist.all_reduce(part)
            whole = torch.empty(2 * part.numel(), device=at)
            work = dist.all_gather_into_tensor(whole, part.reshape(-1), async_op=True)
            beside = x @ x.t()
            work.wait()
            whole = whole + 1
        torch.neuron.current_stream().wait_stream(side)
        summed = torch.arange(6.0).view(2, 3) * 3 + 2 * step
        assert torch.equal(part.cpu(), summed.t())
        assert torch.equal(whole.cpu(), summed.t().reshape(-1).repeat(2) + 1), (whole.cpu(), summed)
        assert torch.equal(beside.cpu(), (x @ x.t()).cpu())


def threads_of_streams():
    return sum((t / "comm").read_text() == "trine_stream\n" for t in pathlib.Path("/proc/self/task").iterdir())


def sharded_models_learn_as_whole_ones():
    before = threads_of_streams()

    def made():
        torch.manual_seed(0)
        return nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(4)))

    alone, shared = made(), made().to(at)
    for layer in shared:
        fully_shard(layer)
    fully_shard(shared)
    ours, theirs = torch.optim.Adam(shared.parameters(), 0.01), torch.optim.Adam(alone.parameters(), 0.01)
    rows = torch.randn(4 * size, 16, generator=torch.Generator().manual_seed(1))
    for _ in range(5):
        shared(rows[4 * rank : 4 * rank + 4].to(at)).square().mean().backward()
        alone(rows).square().mean().backward()
        for optimizer in (ours, theirs):
            optimizer.step()
            optimizer.zero_grad()
    for p, q in zip(shared.parameters(), alone.parameters()):
        torch.testing.assert_close(p.full_tensor().cpu(), q.detach(), rtol=1e-4, atol=1e-5)
    assert threads_of_streams() > before + 1  # gathers and sums have streams of their own


a_message_waits_on_one_stream_while_another_answers()
sums_wait_for_what_they_add_and_are_waited_for()
sharded_models_learn_as_whole_ones()
print(f"rank {rank} agrees", flush=True)
dist.destroy_process_group()
