"""torch_xla's collectives, groups, gradients, saving and ZeRO-1 over four processes. Run by ranks.py."""

import os

import torch
import torch.distributed as dist
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_backend as xb
import torch_xla.runtime as xr

ROWS, COLUMNS = [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def begin():
    dist.init_process_group("xla", init_method="xla://")


def of(rank, *shape, seed=0):
    """A rank's numbers, which every process can make."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(100 * seed + rank))


def mine(*shape, seed=0):
    return of(xr.global_ordinal(), *shape, seed=seed).to(xm.xla_device())


def same(found, want, **tolerance):
    torch.testing.assert_close(found.cpu(), want, **tolerance)


def row():
    return next(r for r in ROWS if xr.global_ordinal() in r)


def case_groups_with_a_mesh(_):
    me = xr.global_ordinal()
    assert torch.ones(1, device="xla").device == xm.xla_device() == torch.device("xla", me)
    assert isinstance(dist.group.WORLD, xb.ProcessGroupXla) and dist.group.WORLD._mesh == []
    group = dist.new_group(row(), pg_options={"xla_pg_options": {"mesh": ROWS}})  # each asks only for its own
    assert group._mesh == ROWS and group.size() == 2 and isinstance(group, xb.ProcessGroupXla)
    x = mine(3)
    dist.all_reduce(x, group=group)
    same(x, sum(of(r, 3) for r in row()))
    column = [me % 2, me % 2 + 2]
    group = dist.new_group(column, pg_options={"xla_pg_options": {"spmd": True}})
    assert group._mesh == COLUMNS
    alone = [dist.new_group([r]) for r in range(4)][me]
    assert alone._mesh == [[0], [1], [2], [3]] and alone.size() == 1
    found = xm.all_gather(mine(2), groups=group._mesh)
    same(found, torch.cat([of(r, 2) for r in column]))


def case_all_reduce(_):
    x = mine(5)
    kept, total = x.clone(), sum(of(r, 5) for r in range(4))
    same(xm.all_reduce(xm.REDUCE_SUM, x, scale=0.5), total * 0.5)
    same(x, kept.cpu())  # one tensor: a new one
    pair = [mine(2, 3), mine(4, seed=1).to(torch.bfloat16)]
    assert xm.all_reduce(xm.REDUCE_SUM, pair, pin_layout=False) is pair  # a list: in place
    same(pair[0], sum(of(r, 2, 3) for r in range(4)))
    same(pair[1].float(), sum(of(r, 4, seed=1).bfloat16() for r in range(4)).float(), rtol=0.02, atol=0.02)
    same(xm.all_reduce(xm.REDUCE_MAX, x, groups=ROWS), torch.stack([of(r, 5) for r in row()]).amax(0))
    same(xm.all_reduce(xm.REDUCE_MUL, x), torch.stack([of(r, 5) for r in range(4)]).prod(0))
    try:
        xm.all_reduce("average", x)
    except ValueError as e:
        assert "found 'average', expected one of" in str(e)
    else:
        raise AssertionError("no error")


def case_gather_scatter_exchange(_):
    me, x = xr.global_ordinal(), mine(4, 6)
    same(xm.all_gather(x, dim=1), torch.cat([of(r, 4, 6) for r in range(4)], 1))
    same(xm.all_gather(mine(), groups=ROWS), torch.stack([of(r) for r in row()]))
    out = torch.empty(8, 6, device=x.device)
    assert xm.all_gather(x, groups=ROWS, output=out, pin_layout=False) is out
    same(out, torch.cat([of(r, 4, 6) for r in row()]))
    both = xm.all_gather([x, mine(2, seed=1)], pin_layout=False)
    same(both[1], torch.cat([of(r, 2, seed=1) for r in range(4)]))
    total = sum(of(r, 4, 6) for r in range(4))
    same(xm.reduce_scatter(xm.REDUCE_SUM, x, 0.25, 0, 4), total[me : me + 1] / 4)
    part = sum(of(r, 4, 6) for r in row()).chunk(2, 1)[me % 2]
    same(xm.reduce_scatter(xm.REDUCE_SUM, x, 1.0, 1, 2, groups=ROWS), part)
    same(xm.reduce_scatter(xm.REDUCE_MAX, [x], 1.0, 0, 2, groups=ROWS)[0], torch.stack([of(r, 4, 6) for r in row()]).amax(0).chunk(2)[me % 2])
    same(xm.all_to_all(x, 0, 1, 4), torch.cat([of(r, 4, 6)[me : me + 1] for r in range(4)], 1))
    same(xm.all_to_all(x, 1, 0, 2, groups=ROWS), torch.cat([of(r, 4, 6).chunk(2, 1)[me % 2] for r in row()]))
    same(xm.collective_permute(x, [[0, 1], [1, 2], [2, 3], [3, 0]]), of((me - 1) % 4, 4, 6))
    same(xm.collective_permute(x, [[0, 3], [1, 1]]), of(0, 4, 6) if me == 3 else of(1, 4, 6) if me == 1 else torch.zeros(4, 6))
    y = mine(3)
    xm.collective_broadcast([y], 2)
    same(y, of(2, 3))


def case_buckets(_):
    me, given = xr.global_ordinal(), [mine(4, 1 << k, seed=k) for k in range(4)]
    whole = xm.all_gather_bucketized(given, bucket_cap_mb=0)
    parts = xm.reduce_scatter_bucketized(xm.REDUCE_SUM, given, 1.0, 0, 4, bucket_cap_mb=1)
    for k in range(4):
        same(whole[k], torch.cat([of(r, 4, 1 << k, seed=k) for r in range(4)]))
        same(parts[k], sum(of(r, 4, 1 << k, seed=k) for r in range(4))[me : me + 1])
    calls = []
    sizes = [torch.empty(n << 18) for n in (1, 1, 5, 1, 3)]  # MiB
    xm.CoalescingBuckets(lambda i, o: calls.append(len(i)) or i, sizes, bucket_cap_mb=2)()
    assert calls == [2, 1, 1, 1], calls


def model(device="cpu"):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to(device)


def rows(rank=None):
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(5))
    return x if rank is None else x[2 * rank : 2 * rank + 2]


def case_gradients_are_averaged(_):
    for cap in ("0", "1"):
        os.environ["ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB"] = cap
        ours, alone = model(xm.xla_device()), model()
        optimizers = [torch.optim.AdamW(m.parameters(), 0.1) for m in (ours, alone)]
        for _ in range(2):
            ours(rows(xr.global_ordinal()).to(xm.xla_device())).square().mean().backward()
            alone(rows()).square().mean().backward()
            xm.optimizer_step(optimizers[0], barrier=True)
            optimizers[1].step()
            for o in optimizers:
                o.zero_grad()
        for p, q in zip(ours.parameters(), alone.parameters()):
            same(p, q, rtol=1e-4, atol=1e-5)
    del os.environ["ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB"]


def case_rendezvous(folder):
    me = xr.global_ordinal()
    for n in range(4):
        assert xm.rendezvous("here", f"{me}.{n}".encode()) == [f"{r}.{n}".encode() for r in range(4)]
    assert xm.rendezvous("two", b"" if me % 2 else b"x", replicas=[0, 1] if me < 2 else [2, 3]) == [b"x", b""]
    assert xm.mesh_reduce("mean", {"v": torch.full((2,), float(me), device=xm.xla_device())}, lambda all: [d["v"].tolist() for d in all]) == [[float(r)] * 2 for r in range(4)]
    xm.save({"w": mine(3)}, folder / "w.pt", master_only=True, global_master=True)
    same(torch.load(folder / "w.pt")["w"], of(0, 3))
    seen = []
    xm.add_step_closure(lambda v: seen.append(v.item()), (mine(1).sum(),))
    xm.add_step_closure(lambda v: seen.append(v.item()), (mine(1).sum() + 1,), run_async=True)
    assert not seen
    torch_xla.sync(wait=True)
    assert abs(seen[1] - seen[0] - 1) < 1e-6


def trained(zero, steps, alone, optimizer_of=torch.optim.AdamW, clip=0.05):
    """A model of this rank after steps of ZeRO-1, and one process's with all rows and torch's own clip."""
    mine_, theirs = zero.param_groups[0]["params"], list(alone.parameters())
    plain = optimizer_of(theirs, lr=0.1)
    for step in range(steps):
        for m, p in ((zero.model, zero), (alone, plain)):
            p.zero_grad()
            x = rows() if m is alone else rows(xr.global_ordinal()).to(xm.xla_device())
            m(x + step).square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(theirs, clip)
        plain.step()
        zero.step()
        xm.mark_step()
        if zero.grad_clipping:
            same(zero.grad_norm, norm, rtol=1e-4, atol=1e-6)
        for p, q in zip(mine_, theirs):
            same(p, q, rtol=1e-4, atol=1e-5)
    return plain


def zero_of(m, **options):
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

    zero = ZeroRedundancyOptimizer(m.parameters(), torch.optim.AdamW, lr=0.1, **{"max_norm": 0.05, **options})
    zero.model = m
    return zero


def case_zero_1(_):
    for options in ({}, {"bucket_cap_mb_all_gather": 1, "bucket_cap_mb_reduce_scatter": 1}, {"use_grad_acc_hook": True, "higher_cc_precision": True}):
        zero = zero_of(model(xm.xla_device()), pin_layout=False, **options)
        trained(zero, 2, model())
        assert [s.shape[0] for s in zero.base_optimizer.param_groups[0]["params"]] == [2, 2, 1, 1]  # of 5 and 3 rows, padded to 8 and 4


def case_zero_1_within_groups(_):
    zero = zero_of(model(xm.xla_device()), sharding_groups=ROWS, lazy_init=True)
    zero.init_zero()
    scheme = [{"scale_factor": 1.0, "sharding_group": ROWS, "group_size": 2}]
    zero.model(rows(xr.global_ordinal()).to(xm.xla_device())).square().mean().backward()
    zero.step(sharding_scheme=scheme)
    want, pair = model(), row()
    optimizer = torch.optim.AdamW(want.parameters(), lr=0.1)
    torch.stack([want(rows(r)).square().mean() for r in pair]).mean().backward()
    torch.nn.utils.clip_grad_norm_(want.parameters(), 0.05)
    optimizer.step()
    for p, q in zip(zero.param_groups[0]["params"], want.parameters()):
        same(p, q, rtol=1e-4, atol=1e-5)


def case_zero_1_is_resumed(folder):
    first, alone = zero_of(model(xm.xla_device()), save_master_weights=True), model()
    trained(first, 2, alone)
    xm.save(first.state_dict(), folder / f"zero{xr.global_ordinal()}.pt", master_only=False)
    again = zero_of(model(xm.xla_device()), save_master_weights=True)
    again.load_state_dict(torch.load(folder / f"zero{xr.global_ordinal()}.pt"))
    for p, q in zip(again.param_groups[0]["params"], first.param_groups[0]["params"]):
        same(p, q.cpu())
    for zero in (first, again):
        zero.zero_grad()
        zero.model(rows(xr.global_ordinal()).to(xm.xla_device())).square().mean().backward()
        zero.step()
    for p, q in zip(again.param_groups[0]["params"], first.param_groups[0]["params"]):
        same(p, q.cpu())


def case_gradients_through_collectives(_):
    import torch_xla.core.functions as xf

    x = mine(2, 3).requires_grad_()
    xf.all_reduce(xm.REDUCE_SUM, x).square().sum().backward()
    total = sum(of(r, 2, 3) for r in range(4))
    same(x.grad, 8 * total)
    y = mine(2, 3).requires_grad_()
    (xf.all_gather(y, 1) * xr.global_ordinal()).sum().backward()
    same(y.grad, torch.full((2, 3), 6.0))
