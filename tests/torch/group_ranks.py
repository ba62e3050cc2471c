"""Run by torchrun, on the device named: every call of torch.distributed against what it must give. Prints "rank N agrees"."""

import datetime
import functools
import operator
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce, all_to_all_single, reduce_scatter_tensor

warnings.filterwarnings("ignore")
device = sys.argv[1]
dist.init_process_group("neuron" if device == "cpu" else device)
rank, size = dist.get_rank(), dist.get_world_size()
at = torch.device(device) if device == "cpu" else torch.device(device, rank % torch.neuron.device_count())

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WHOLE = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
EIGHT = (torch.float8_e4m3fn, torch.float8_e5m2)


def brought(r, dtype, count=5):
    """What rank r brings: exact in every type."""
    return ((torch.arange(count) + r) % 3 + 1).to(dtype)


def on(t):
    return t.to(at)


def same(found, expected):
    assert found.device.type == at.type, found.device
    assert torch.equal(found.cpu().to(torch.float64), expected.to(torch.float64)), (found.cpu(), expected)


def reductions():
    ops = {"SUM": operator.add, "PRODUCT": operator.mul, "MIN": torch.minimum, "MAX": torch.maximum}
    bits = {"BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor}
    for dtype in FLOATS + WHOLE:
        for name, f in (ops if dtype.is_floating_point else ops | bits).items():
            x = on(brought(rank, dtype))
            dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
            same(x, functools.reduce(f, [brought(r, dtype) for r in range(size)]))
    for dtype in EIGHT:
        x = on(brought(rank, dtype))
        dist.all_reduce(x)
        same(x, sum(brought(r, torch.float32) for r in range(size)).to(dtype))
    x = on(torch.tensor([rank == 0, True, False]))
    dist.all_reduce(x)
    assert x.tolist() == [True, True, False]
    x = on(torch.tensor([float(rank), 2.0]))
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.tolist() == [(size - 1) / 2, 2.0]
    x = on(torch.tensor([float(rank), 2.0]))
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.5))
    assert x.tolist() == [size * (size - 1) / 4, size]
    x = on(torch.full((3,), 1 + 2j))
    dist.all_reduce(x)
    assert x.cpu().tolist() == [size * (1 + 2j)] * 3
    try:
        dist.all_reduce(on(torch.ones(2)), op=dist.ReduceOp.BXOR)
        raise AssertionError("bits of floats")
    except RuntimeError as e:
        assert "xor of f32" in str(e), e
    strided = on(torch.ones(4, 6))[:, ::2]
    dist.all_reduce(strided)
    same(strided, torch.full((4, 3), float(size)))
    large = on(torch.arange(700_000, dtype=torch.float32) + rank)
    dist.all_reduce(large)
    same(large, size * torch.arange(700_000, dtype=torch.float32) + size * (size - 1) // 2)
    for root in range(size):
        x = on(brought(rank, torch.float32))
        dist.reduce(x, root)
        same(x, sum(brought(r, torch.float32) for r in range(size)) if rank == root else brought(rank, torch.float32))


def gathers():
    parts = [on(torch.empty(r + 1)) for r in range(size)]  # uneven
    dist.all_gather(parts, on(torch.full((rank + 1,), float(rank))))
    for r, p in enumerate(parts):
        same(p, torch.full((r + 1,), float(r)))
    whole = on(torch.empty(size, 3, dtype=torch.int64))
    dist.all_gather_into_tensor(whole, on(torch.full((3,), rank)))
    same(whole, torch.arange(size)[:, None].expand(size, 3))
    many = on(torch.empty(size * 400_000, dtype=torch.uint8))
    dist.all_gather_into_tensor(many, on(torch.full((400_000,), rank, dtype=torch.uint8)))
    same(many, torch.arange(size).repeat_interleave(400_000))
    lists = [[on(torch.empty(2)), on(torch.empty(1))] for _ in range(size)]
    dist.all_gather_coalesced(lists, [on(torch.full((2,), float(rank))), on(torch.tensor([float(rank)]))])
    assert [(a.tolist(), b.tolist()) for a, b in lists] == [([r, r], [r]) for r in range(size)]
    got = [on(torch.empty(2)) for _ in range(size)] if rank == 1 else None
    dist.gather(on(torch.full((2,), float(rank))), got, dst=1)
    assert rank != 1 or [g.tolist() for g in got] == [[r, r] for r in range(size)]
    mine = on(torch.empty(2))
    dist.scatter(mine, [on(torch.full((2,), 10.0 * r)) for r in range(size)] if rank == 2 else None, src=2)
    assert mine.tolist() == [10.0 * rank] * 2
    x = on(torch.full((5,), float(rank)))
    dist.broadcast(x, 1)
    assert x.tolist() == [1.0] * 5


def scatters():
    part = on(torch.empty(2))
    dist.reduce_scatter(part, [on(torch.full((2,), float(r + rank))) for r in range(size)])
    assert part.tolist() == [size * rank + size * (size - 1) / 2] * 2
    part = on(torch.empty(1))
    dist.reduce_scatter_tensor(part, on(torch.arange(float(size))), op=dist.ReduceOp.AVG)
    assert part.item() == rank
    dist.reduce_scatter_tensor(part, on(torch.arange(float(size))), op=dist._make_nccl_premul_sum(2.0))
    assert part.item() == 2 * rank * size
    # Rank i sends j + 1 rows to rank j.
    rows = size * (size + 1) // 2
    out = on(torch.empty(size * (rank + 1), 2))
    dist.all_to_all_single(out, on(torch.full((rows, 2), float(rank))), [rank + 1] * size, [r + 1 for r in range(size)])
    same(out, torch.arange(float(size)).repeat_interleave(rank + 1)[:, None].expand(-1, 2))
    outs = [on(torch.empty(r + 1)) for r in range(size)]
    dist.all_to_all(outs, [on(torch.full((rank + 1,), 10.0 * rank + r)) for r in range(size)])
    assert [o.tolist() for o in outs] == [[10.0 * r + rank] * (r + 1) for r in range(size)]


def messages():
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (1, 300_000):
        x, y = on(torch.full((count,), float(rank))), on(torch.empty(count))
        sent = dist.isend(x, after, tag=3)
        dist.recv(y, before, tag=3)
        sent.wait()
        assert y[-1].item() == before
    if rank:
        dist.send(on(torch.tensor([float(rank)])), 0)
    else:
        seen = set()
        for _ in range(size - 1):
            y = on(torch.empty(1))
            source = dist.recv(y)
            assert y.item() == source
            seen.add(source)
        assert seen == set(range(1, size))
    dist.barrier()
    y = on(torch.empty(2))
    ops = [dist.P2POp(dist.isend, on(torch.full((2,), float(rank))), after), dist.P2POp(dist.irecv, y, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert y.tolist() == [before] * 2
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [o["rank"] for o in objects] == list(range(size))
    one = ["from 2" if rank == 2 else None]
    dist.broadcast_object_list(one, src=2)
    assert one == ["from 2"]
    if rank == 0:
        dist.send_object_list([(1, "two")], dst=1)
    elif rank == 1:
        got = [None]
        dist.recv_object_list(got, src=0)
        assert got == [(1, "two")]


def sparse():
    """Rank r has r + 1 rows; rows that several have are added up."""
    if at.type != "cpu":
        return
    rows = torch.arange(rank + 1)[None]
    x = torch.sparse_coo_tensor(rows, torch.full((rank + 1, 2), float(rank)), (size + 1, 2))
    dist.all_reduce(x)
    assert x.to_dense().tolist() == [[float(sum(range(row, size)))] * 2 for row in range(size + 1)]
    work = dist.all_reduce(y := torch.sparse_coo_tensor(rows[:, :1], torch.ones(1), (3,)), async_op=True)
    work.wait()
    assert y.to_dense().tolist() == [size, 0, 0]


def asynchronous():
    x, y = on(torch.full((3,), float(rank))), on(torch.ones(2))
    works = [dist.all_reduce(x, async_op=True), dist.all_reduce(y, async_op=True)]
    doubled = works[0].get_future().then(lambda f: f.value()[0] * 2)
    assert doubled.wait().tolist() == [size * (size - 1)] * 3
    works[1].wait()
    assert y.tolist() == [size] * 2 and works[1].is_completed()
    a, b = on(torch.ones(2)), on(torch.full((3,), 2.0))
    with dist._coalescing_manager(device=at, async_ops=True) as manager:
        dist.all_reduce(a)
        dist.all_reduce(b)
    manager.wait()
    assert a.tolist() == [size] * 2 and b.tolist() == [2.0 * size] * 3
    outs = [on(torch.empty(size)), on(torch.empty(2 * size))]
    with dist._coalescing_manager(device=at):
        for i, o in enumerate(outs):
            dist.all_gather_into_tensor(o, on(torch.full((i + 1,), float(rank))))
    assert outs[1].tolist() == [r for r in range(size) for _ in range(2)]
    dist.barrier()


def subgroups():
    even = dist.new_group([r for r in range(size) if r % 2 == 0])
    odd = dist.new_group([r for r in range(size) if r % 2 == 1])
    mine = odd if rank % 2 else even
    x = on(torch.tensor([float(rank)]))
    dist.all_reduce(x, group=mine)
    assert x.item() == sum(r for r in range(size) if r % 2 == rank % 2)
    x = on(torch.tensor([float(rank)]))
    dist.broadcast(x, rank % 2, group=mine)
    assert x.item() == rank % 2
    if at.type == "neuron":
        mesh = dist.init_device_mesh("neuron", (size // 2, 2), mesh_dim_names=("dp", "tp"))
        x = on(torch.tensor([float(rank)]))
        dist.all_reduce(x, group=mesh["tp"].get_group())
        assert x.item() == 2 * (rank // 2 * 2) + 1


def barriers():
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60), wait_all_ranks=True)
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.monitored_barrier(pair)


def functional():
    world = dist.group.WORLD
    x = on(torch.full((2,), float(rank)))
    assert (all_reduce(x, "sum", world) + 0).tolist() == [size * (size - 1) / 2] * 2
    assert (all_gather_tensor(x, 0, world) + 0).tolist() == [r for r in range(size) for _ in range(2)]
    y = on(torch.arange(2.0 * size))
    assert (reduce_scatter_tensor(y, "avg", 0, world) + 0).tolist() == [2 * rank, 2 * rank + 1]
    assert (all_to_all_single(y, None, None, world) + 0).tolist() == [2 * rank, 2 * rank + 1] * size


def compiled():
    world = dist.group.WORLD

    def step(x):
        y = all_gather_tensor(all_reduce(x * 2, "sum", world) + 1, 0, world)
        return all_to_all_single(reduce_scatter_tensor(y, "avg", 0, world), None, None, world).sin()

    x = on(torch.arange(float(size)) + rank)
    torch.testing.assert_close(torch.compile(step, backend="neuron", fullgraph=True)(x).cpu(), step(x).cpu())


def main():
    for check in (reductions, gathers, scatters, messages, sparse, asynchronous, subgroups, barriers, functional, compiled):
        check()
    print(f"rank {rank} agrees", flush=True)
    dist.destroy_process_group()


main()
