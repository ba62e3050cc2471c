"""neuronx_distributed's layers, losses, optimizers and checkpoints over four ranks, TP 2 and DP 2, against whole modules in one
process. Run by ranks.py, with NXD_CPU_MODE=1 over gloo and without it on the device."""

import torch
import torch.distributed as dist
from torch import nn

import neuronx_distributed as nxd
from neuronx_distributed.modules.qkv_linear import GQAQKVColumnParallelLinear
from neuronx_distributed.parallel_layers import grads, layers, mappings, parallel_cross_entropy, parallel_state, rank_groups
from neuronx_distributed.parallel_layers.layer_norm import LayerNorm
from neuronx_distributed.utils import cpu_mode, get_device, mark_step
from neuronx_distributed.utils.utils import hardware


def begin():
    if cpu_mode():
        dist.init_process_group("gloo")
    else:
        import torch_xla.distributed.xla_backend  # noqa: F401

        dist.init_process_group("xla")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def same(found, want, tolerance=1e-5):
    torch.testing.assert_close(found.detach().cpu(), want.detach(), rtol=tolerance, atol=tolerance)


def tp():
    return parallel_state.get_tensor_model_parallel_rank()


def cut(whole, dim):
    return whole.chunk(2, dim)[tp()]


def case_which_ranks_belong_together(_):
    me = dist.get_rank()
    assert parallel_state.get_tensor_model_parallel_replica_groups() == [[0, 1], [2, 3]]
    assert parallel_state.get_data_parallel_replica_groups() == [[0, 2], [1, 3]]
    assert (tp(), parallel_state.get_data_parallel_rank(), parallel_state.get_pipeline_model_parallel_size()) == (me % 2, me // 2, 1)
    trn1 = rank_groups.groups(32, tp=4, chip=hardware.TRN1, on_host=32)
    assert trn1.tp_groups[:2] == [[0, 8, 16, 24], [1, 9, 17, 25]] and trn1.dp_groups[0] == list(range(8))
    trn2 = rank_groups.groups(64, tp=32, chip=hardware.TRN2, lnc=2, on_host=64)
    assert trn2.tp_groups == [[*range(16), *range(48, 64)], [*range(16, 48)]]
    mixed = rank_groups.groups(128, tp=8, pp=4, ep=2, on_host=32)
    assert mixed.pp_groups[0] == [0, 32, 64, 96] and mixed.dp_groups[0] == [0, 8, 16, 24]
    assert mixed.ep_data_groups[0] == [0, 16] and mixed.ep_model_groups[0] == [0, 8]
    try:
        rank_groups.groups(6, tp=4)
    except RuntimeError as e:
        assert "found 6 ranks, expected a multiple of TP 4" in str(e)
    else:
        raise AssertionError("no error")


def case_mappings(_):
    x = drawn(4, 6).to(get_device())
    weight = (drawn(4, 6, seed=1) * (1 + tp())).to(get_device())
    total = drawn(4, 6, seed=1) * 3

    def gradient(f):
        leaf = x.clone().requires_grad_()
        out = f(leaf)
        (out * weight.narrow(0, 0, out.size(0)).narrow(1, 0, out.size(1)) if out.numel() <= 24 else out * torch.cat([weight, weight], 0)).sum().backward()
        return out, leaf.grad

    out, grad = gradient(mappings.copy_to_tensor_model_parallel_region)
    same(out, x.cpu()), same(grad, total)
    out, grad = gradient(mappings.reduce_from_tensor_model_parallel_region)
    same(out, 2 * x.cpu()), same(grad, weight.cpu())
    out, grad = gradient(mappings.scatter_to_tensor_model_parallel_region)
    same(out, cut(x.cpu(), 1))
    same(grad, torch.cat([drawn(4, 6, seed=1)[:, :3], 2 * drawn(4, 6, seed=1)[:, :3]], 1))
    out, grad = gradient(mappings.gather_from_sequence_parallel_region)
    same(out, torch.cat([x.cpu()] * 2)), same(grad, total)
    out, grad = gradient(lambda v: mappings.gather_from_sequence_parallel_region(v, to_model_parallel=False))
    same(grad, weight.cpu())
    out, grad = gradient(mappings.reduce_scatter_to_sequence_parallel_region)
    same(out, 2 * cut(x.cpu(), 0)), same(grad, torch.cat([drawn(4, 6, seed=1)[:2], 2 * drawn(4, 6, seed=1)[:2]]))


class Whole(nn.Module):
    """What the parallel layers are together, in one process."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(10, 8)
        self.up, self.norm, self.down, self.head = nn.Linear(8, 12), nn.LayerNorm(8), nn.Linear(12, 8), nn.Linear(8, 10, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.down(torch.tanh(self.up(self.norm(x))))
        return self.head(x)


class Parallel(nn.Module):
    def __init__(self, sequence_parallel=False):
        super().__init__()
        torch.manual_seed(3)
        options = {"sequence_parallel_enabled": sequence_parallel}
        self.sequence_parallel, self.embed = sequence_parallel, layers.ParallelEmbedding(10, 8, **options)
        self.up = layers.ColumnParallelLinear(8, 12, gather_output=False, **options)
        self.norm = LayerNorm(8, sequence_parallel_enabled=sequence_parallel)
        self.down = layers.RowParallelLinear(12, 8, input_is_parallel=True, **options)
        self.head = layers.ColumnParallelLinear(8, 10, bias=False, gather_output=False, **options)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.down(torch.tanh(self.up(self.norm(x))))
        logits = self.head(x)
        return logits.transpose(0, 1) if self.sequence_parallel else logits


def tokens(rank=None):
    found = torch.randint(0, 10, (4, 6), generator=torch.Generator().manual_seed(9))
    return found if rank is None else found[2 * rank : 2 * rank + 2]


def loss_of(model, t, parallel):
    logits, target = model(t)[:, :-1], t[:, 1:]
    if parallel:
        return parallel_cross_entropy(logits, target).mean()
    return nn.functional.cross_entropy(logits.reshape(-1, 10), target.reshape(-1))


DIMS = {"embed.weight": 0, "up.weight": 0, "up.bias": 0, "down.weight": 1, "head.weight": 0}


def compared(parallel, whole, of=lambda p: p, tolerance=1e-5):
    theirs = dict(whole.named_parameters())
    for name, p in parallel.named_parameters():
        name = name.removeprefix("module.")
        want = of(theirs[name])
        same(of(p), cut(want, DIMS[name]) if name in DIMS else want, tolerance)


def case_a_seed_gives_the_same_model_on_any_number_of_ranks(_):
    compared(Parallel(), Whole())


def case_layers_and_cross_entropy(_):
    for sequence_parallel in (False, True):
        model, whole = Parallel(sequence_parallel).to(get_device()), Whole()
        for p, q in zip(model.parameters(), Parallel(sequence_parallel).parameters()):
            p.sequence_parallel_enabled = getattr(q, "sequence_parallel_enabled", False)
            p.tensor_model_parallel = getattr(q, "tensor_model_parallel", False)
        found, want = loss_of(model, tokens().to(get_device()), True), loss_of(whole, tokens(), False)
        same(found, want)
        found.backward()
        want.backward()
        if sequence_parallel:
            grads.allreduce_sequence_parallel_gradients(torch.optim.SGD(model.parameters(), 0.1))
        compared(model, whole, lambda p: p.grad)
        norm = grads.clip_grad_norm(model.parameters(), 0.1)
        same(norm[0], nn.utils.clip_grad_norm_(whole.parameters(), 0.1))
        compared(model, whole, lambda p: p.grad)
        same(grads.get_grad_norm(list(model.parameters()), float("inf"))[0], max(p.grad.abs().max() for p in whole.parameters()))


def case_smoothed_cross_entropy(_):
    logits, target = drawn(3, 10), torch.tensor([1, 7, 9])
    mine, whole = cut(logits, 1).contiguous().to(get_device()).requires_grad_(), logits.clone().requires_grad_()
    found = parallel_cross_entropy(mine, target.to(get_device()), label_smoothing=0.1)
    found.sum().backward()
    smooth = 0.1 * 10 / 9
    log = whole.log_softmax(-1)
    want = -(1 - smooth) * log.gather(1, target[:, None])[:, 0] - smooth * log.mean(-1)
    want.sum().backward()
    same(found, want), same(mine.grad, cut(whole.grad, 1))


def case_padded_and_strided_layers(_):
    torch.manual_seed(1)
    layer = layers.ColumnParallelLinear(4, 5, pad=True).to(get_device())
    assert layer.weight.shape == (3, 4) and layer(drawn(2, 4).to(get_device())).shape == (2, 5)
    torch.manual_seed(1)
    row = layers.RowParallelLinear(5, 3, pad=True, bias=False).to(get_device())
    assert row(drawn(2, 5).to(get_device())).shape == (2, 3)
    whole = torch.arange(8.0)[:, None]
    assert layers.create_local_weight(whole, 0, 4, 2)[:, 0].tolist() == ([0, 1, 4, 5] if tp() == 0 else [2, 3, 6, 7])
    wide = layers.ParallelEmbedding(5, 4, shard_across_embedding=True).to(get_device())
    assert wide.weight.shape == (5, 2) and wide(torch.tensor([1, 2], device=get_device())).shape == (2, 4)


def case_convolutions(_):
    torch.manual_seed(2)
    one, two = layers.OutputChannelParallelConv2d(3, 4, 3, padding=1, gather_output=False), layers.InputChannelParallelConv2d(4, 2, 3, input_is_parallel=True)
    torch.manual_seed(2)
    whole = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 2, 3))
    x = drawn(1, 3, 5, 5)
    same(two.to(get_device())(one.to(get_device())(x.to(get_device()))), whole(x), 1e-4)


def case_grouped_heads(_):
    for fused in (True, False):
        torch.manual_seed(4)
        layer = GQAQKVColumnParallelLinear(6, [8, 2], gather_output=False, bias=False, kv_size_multiplier=2, fuse_qkv=fused).to(get_device())
        torch.manual_seed(4)
        q, k, v = nn.Linear(6, 8, bias=False), nn.Linear(6, 2, bias=False), nn.Linear(6, 2, bias=False)
        x, y = drawn(2, 3, 6).to(get_device()).requires_grad_(), drawn(2, 3, 6).requires_grad_()
        found = layer(x)
        same(found[0], cut(q(y), -1)), same(found[1], k(y)), same(found[2], v(y))
        sum((1 + tp()) * f.square().sum() for f in found[1:]).backward()
        (3 * k(y).square().sum() + 3 * v(y).square().sum()).backward()
        same(x.grad, y.grad, 1e-4)
        grad = layer.weight_qkv.grad[4:6] if fused else layer.weight_k.grad
        same(grad, k.weight.grad, 1e-4)


def trained(config, steps, optimizer_of, **options):
    model = nxd.initialize_parallel_model(config, lambda: Parallel(config["sequence_parallel"]))
    optimizer = nxd.initialize_parallel_optimizer(config, optimizer_of, model.parameters(), lr=0.05, **options)
    step(model, optimizer, steps)
    return model, optimizer


def step(model, optimizer, count=1):
    for _ in range(count):
        optimizer.zero_grad()
        loss_of(model, tokens(parallel_state.get_data_parallel_rank()).to(get_device()), True).backward()
        optimizer.step()
        mark_step()


def alone(steps, optimizer_of, clip):
    whole = Whole()
    optimizer = optimizer_of(whole.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(whole, tokens(), False).backward()
        norm = nn.utils.clip_grad_norm_(whole.parameters(), clip)
        optimizer.step()
    return whole, norm


def case_trainer(_):
    from neuronx_distributed.utils.adamw_fp32_optim_params import AdamW_FP32OptimParams

    for zero, sequence_parallel, optimizer_of in ((False, True, torch.optim.AdamW), (True, False, AdamW_FP32OptimParams)):
        config = nxd.neuronx_distributed_config(tensor_parallel_size=2, sequence_parallel=sequence_parallel, activation_checkpoint_config=nn.LayerNorm,
                                                optimizer_config={"zero_one_enabled": zero, "grad_clipping": True, "max_grad_norm": 0.1})  # fmt: skip
        model, optimizer = trained(config, 2, optimizer_of)
        whole, norm = alone(2, optimizer_of, 0.1)
        same(optimizer.grad_norm.reshape(()), norm, 1e-4)
        compared(model.module, whole, tolerance=1e-4)


class Tied(nn.Module):
    """An embedding that is the head too, grouped heads, and a buffer: what AWS's LLaMA example makes on the meta device."""

    def __init__(self):
        super().__init__()
        self.embed = layers.ParallelEmbedding(10, 8)
        self.qkv = GQAQKVColumnParallelLinear(8, [8, 2], gather_output=False, bias=False, kv_size_multiplier=2)
        self.norm = nn.LayerNorm(8)
        self.head = layers.ColumnParallelLinear(8, 10, bias=False, gather_output=False)
        self.head.weight = self.embed.weight
        self.register_buffer("positions", tensor=torch.arange(4.0))


def case_a_model_of_the_meta_device(_):
    seen = []

    def init(module, device):
        seen.append(type(module))
        if isinstance(module, layers.ParallelEmbedding):
            torch.manual_seed(5)
        if isinstance(module, (layers.ParallelEmbedding, layers.ColumnParallelLinear)):
            module.init_weight_cpu()
        elif isinstance(module, GQAQKVColumnParallelLinear):
            module.initialize_weight_biases()
        elif isinstance(module, nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, Tied):
            module.positions = torch.arange(4.0)

    config = nxd.neuronx_distributed_config(tensor_parallel_size=2, model_init_config={"meta_device_init": True, "param_init_fn": init})
    model = nxd.initialize_parallel_model(config, Tied, True).module
    assert Tied in seen and model.head.weight is model.embed.weight
    assert all(p.device.type != "meta" and p.abs().sum() > 0 for n, p in model.named_parameters() if n != "norm.bias")
    same(model.norm.weight, torch.ones(8)), same(model.positions, torch.arange(4.0))
    torch.manual_seed(5)
    same(model.embed.weight, cut(nn.Embedding(10, 8).weight, 0))
    config["model_init_config"]["param_init_fn"] = lambda module, device: None
    try:
        nxd.initialize_parallel_model(config, Tied, True)
    except ValueError as error:
        assert "found buffer 'positions'" in str(error)
    else:
        raise AssertionError("a buffer without values was moved")


def case_checkpoint(folder):
    config = nxd.neuronx_distributed_config(tensor_parallel_size=2, optimizer_config={"zero_one_enabled": True},
                                            mixed_precision_config={"use_master_weights_in_ckpt": True})  # fmt: skip
    model, optimizer = trained(config, 1, torch.optim.AdamW)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer.optimizer, 1)
    for tag, options in (("a", {}), ("b", {"use_xser": True}), ("c", {"async_save": True})):
        nxd.save_checkpoint(str(folder / "saved"), tag, model, optimizer, scheduler, {"tag": tag}, num_kept_ckpts=2, **options)
    nxd.finalize_checkpoint()
    assert nxd.has_checkpoint(str(folder / "saved")) and not (folder / "saved/a").exists()
    assert (folder / "saved/b/model/dp_rank_00_tp_rank_01_pp_rank_00.pt.tensors").is_dir()
    assert (folder / "saved/c/optim/dp_rank_01_tp_rank_00_pp_rank_00.pt").is_file() and (folder / "saved/c/done").is_file()
    for tag in ("b", None):
        again, other = trained(config, 2, torch.optim.AdamW)  # another state, to be written over
        assert nxd.load_checkpoint(str(folder / "saved"), tag, again, other) == {"tag": tag or "c"}
        step(again, other)
        want, theirs = trained(config, 2, torch.optim.AdamW)
        for p, q in zip(again.parameters(), want.parameters()):
            same(p, q.cpu())


def case_an_optimizers_part_in_a_file_of_its_own(folder):
    config = nxd.neuronx_distributed_config(tensor_parallel_size=2, optimizer_config={"zero_one_enabled": True})
    model, optimizer = trained(config, 1, torch.optim.AdamW)
    weights = {name: p.detach().cpu().clone() for name, p in model.named_parameters()}
    optimizer.save_sharded_state_dict(str(folder / "parts"))
    assert len(list((folder / "parts").glob("optim.dp_rank_0[01].tp_rank_0[01]"))) == 4
    again, other = trained(config, 2, torch.optim.AdamW)
    with torch.no_grad():
        for name, p in again.named_parameters():
            p.copy_(weights[name])
    other.load_sharded_state_dict(str(folder / "parts"))
    step(again, other), step(model, optimizer)
    for p, q in zip(again.parameters(), model.parameters()):
        same(p, q.cpu())


def case_ring_attention(_):
    from neuronx_distributed.kernels.flash_attn import nki_flash_attn_func
    from neuronx_distributed.kernels.ring_attention_kernel import nki_ring_attn_func

    parallel_state.initialize_model_parallel(context_parallel_size=2, tensor_model_parallel_size=2)
    me = parallel_state.get_context_model_parallel_rank()
    whole = [drawn(1, 1, 2048, 4, seed=s).requires_grad_() for s in range(3)]
    parts = [w.detach().chunk(2, 2)[me].contiguous().to(get_device()).requires_grad_() for w in whole]
    found = nki_ring_attn_func(*parts, dist.get_rank(), parallel_state.get_context_model_parallel_src_tgt_pairs())
    want = nki_flash_attn_func(*whole, transpose_nki_inputs=False)
    same(found, want.chunk(2, 2)[me])
    weight = drawn(1, 1, 2048, 4, seed=7)
    (found * weight.chunk(2, 2)[me].to(get_device())).sum().backward()
    (want * weight).sum().backward()
    for p, w in zip(parts, whole):
        same(p.grad, w.grad.chunk(2, 2)[me], 1e-4)
    batch = {"input_ids": tokens(), "labels": tokens()}
    from neuronx_distributed.utils.batch_utils import get_batch_on_this_context_parallel_rank

    part = get_batch_on_this_context_parallel_rank(batch)
    assert part["labels"][0].tolist() == (tokens()[0, 1:4].tolist() if me == 0 else [*tokens()[0, 4:].tolist(), -100])
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
