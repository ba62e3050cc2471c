"""torch_xla's FSDP over two processes against one process with all rows. Run by ranks.py."""

import functools

import torch
import torch.distributed as dist
import torch_xla.core.xla_model as xm
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from torch_xla.distributed.fsdp import checkpoint_module, consolidate_sharded_model_checkpoints
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy


def begin():
    dist.init_process_group("xla", init_method="xla://")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 10), torch.nn.Linear(10, 6)
        self.register_buffer("scale", torch.full((1,), 0.5))

    def forward(self, x):
        return x + self.scale * self.b(torch.tanh(self.a(x)))


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block(), torch.nn.Linear(6, 3))


def rows(rank=None):
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(5))
    return x if rank is None else x[2 * rank : 2 * rank + 2]


def compared(sharded, tolerance=1e-4, steps=2):
    alone, device = model(), xm.xla_device()
    ours, theirs = torch.optim.AdamW(sharded.parameters(), 0.05), torch.optim.AdamW(alone.parameters(), 0.05)
    for _ in range(steps):
        loss = sharded(rows(dist.get_rank()).to(device)).float().square().mean()
        want = alone(rows()).square().mean()
        loss.backward()
        want.backward()
        norm = sharded.clip_grad_norm_(0.1)
        torch.testing.assert_close(norm.cpu(), torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1), rtol=tolerance, atol=tolerance)
        for o in (ours, theirs):
            o.step()
            o.zero_grad()
        xm.mark_step()
        torch.testing.assert_close(xm.all_reduce(xm.REDUCE_SUM, loss.detach(), 0.5).cpu(), want.detach(), rtol=tolerance, atol=tolerance)
    return alone


def case_fsdp_nested(folder):
    inner = [FSDP(checkpoint_module(m) if i else m) for i, m in enumerate(model().to(xm.xla_device()))]
    sharded = FSDP(torch.nn.Sequential(*inner))
    assert sum(p.numel() for p in sharded.parameters()) == -(-sum(p.numel() for p in model().parameters()) // 2)
    alone, rank = compared(sharded), dist.get_rank()
    xm.save({"model": sharded.state_dict(), "shard_metadata": sharded.get_shard_metadata()}, f"{folder}/fsdp_{rank}.pth", master_only=False)
    whole, _ = consolidate_sharded_model_checkpoints(f"{folder}/fsdp_", "?.pth", save_model=False)
    for name, want in alone.state_dict().items():
        torch.testing.assert_close(whole[name], want, rtol=1e-4, atol=1e-4)


def case_fsdp_by_policy(_):
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    sharded = FSDP(model().to(xm.xla_device()), auto_wrap_policy=policy, reshard_after_forward=False)
    assert [isinstance(m, FSDP) for m in sharded.module] == [True, True, False]
    compared(sharded)
    compared(FSDP(model().to(xm.xla_device()), flatten_parameters=False))


def case_fsdp_computes_in_bf16(_):
    sharded = FSDP(model().to(xm.xla_device()), compute_dtype=torch.bfloat16, fp32_reduce_scatter=True)
    assert next(sharded.parameters()).dtype is torch.float32
    compared(sharded, 0.03, 1)


def case_fsdp_gathers_again(_):
    sharded = FSDP(model().to(xm.xla_device()))
    held = sharded._units[0]
    loss = sharded(rows(dist.get_rank()).to(xm.xla_device())).square().mean()
    calls, plain = [], held.gathered
    held.gathered = lambda shard: calls.append(1) or plain(shard)
    loss.backward()
    assert calls == [1] and held.again is None
