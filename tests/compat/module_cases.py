"""neuronx_distributed's adapters and experts over four ranks, against whole modules in one process. Run by ranks.py with
NXD_CPU_MODE=1."""

import torch
import torch.distributed as dist
from torch import nn

import neuronx_distributed as nxd
from neuronx_distributed.modules.lora import LoraConfig, LoraModel
from neuronx_distributed.modules.moe import ExpertMLPs, GroupLimitedRouter, MoE, RouterSinkhorn, RouterTopK, load_balancing_loss_func
from neuronx_distributed.modules.qkv_linear import GQAQKVColumnParallelLinear
from neuronx_distributed.parallel_layers import grads, layers, parallel_state
from neuronx_distributed.parallel_layers.pad import generate_padding_mask, pad_model
from neuronx_distributed.utils.utils import hardware


def begin():
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def same(found, want, tolerance=1e-5):
    torch.testing.assert_close(found, want, rtol=tolerance, atol=tolerance)


def tp():
    return parallel_state.get_tensor_model_parallel_rank()


class Block(nn.Module):
    def __init__(self, parallel, sequence_parallel=False):
        super().__init__()
        torch.manual_seed(3)
        if parallel:
            options = {"sequence_parallel_enabled": sequence_parallel}
            self.embed = nn.Embedding(10, 8)
            self.up = layers.ColumnParallelLinear(8, 12, gather_output=False, **options)
            self.down = layers.RowParallelLinear(12, 8, input_is_parallel=True, **options)
        else:
            self.embed, self.up, self.down = nn.Embedding(10, 8), nn.Linear(8, 12), nn.Linear(12, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.down(torch.tanh(self.up(x))))


def fill(model):
    """The same numbers in the adapters of whole and cut layers."""
    with torch.no_grad():
        for i, (name, p) in enumerate((n, p) for n, p in model.named_parameters() if "lora_" in n):
            whole = list(p.shape)
            if getattr(p, "tensor_model_parallel", False):
                whole[p.partition_dim] *= 2
            values = drawn(*whole, seed=i)
            p.copy_(values.chunk(2, p.partition_dim)[tp()] if list(p.shape) != whole else values)


CONFIG = {"lora_rank": 2, "lora_alpha": 4, "target_modules": ["up", "down"], "modules_to_save": ["head"]}


def case_adapters(folder):
    for sequence_parallel in (False, True):
        model, whole = LoraModel(Block(True, sequence_parallel), LoraConfig(**CONFIG)), LoraModel(Block(False), LoraConfig(**CONFIG))
        fill(model), fill(whole)
        assert not model.module.up.base_layer.weight.requires_grad and model.module.head.weight.requires_grad
        x = drawn(4, 2, 8, seed=9)
        part = x.chunk(2)[tp()] if sequence_parallel else x
        out, want = model(part), whole(x)
        same(out, want.chunk(2)[tp()] if sequence_parallel else want)
        for p in model.module.head.parameters():
            p.sequence_parallel_enabled = sequence_parallel
        out.square().sum().backward()
        want.square().sum().backward()
        if sequence_parallel:
            grads.allreduce_sequence_parallel_gradients(torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1))
        theirs = dict(whole.named_parameters())
        for name, p in model.named_parameters():
            if p.requires_grad:
                is_cut = p.shape != theirs[name].shape
                same(p.grad, theirs[name].grad.chunk(2, p.partition_dim)[tp()] if is_cut else theirs[name].grad, 1e-4)
        model.merge_lora()
        same(model(part), out, 1e-4)
        model.unmerge_lora()
        same(model(part), out, 1e-4)
    model.lora_config.merge_sharded_lora = True
    model.save_lora(str(folder / "lora"), "t")
    saved = torch.load(folder / "lora/t/adapter_model.pt")
    assert saved["up.lora_B.weight"].shape == (12, 2) and "up.base_layer.weight" not in saved
    again = LoraModel(Block(True, True), LoraConfig(load_lora_from_ckpt=True, lora_save_dir=str(folder / "lora"), lora_load_tag="t"))
    same(again(part), out)
    assert sorted(again.state_dict()) == sorted(n for n, p in again.named_parameters() if p.requires_grad)
    again.lora_config.merge_lora = True
    plain = Block(True, True)
    plain.load_state_dict(again.state_dict())
    same(plain(part), out, 1e-4)


def case_adapters_of_other_layers(_):
    torch.manual_seed(0)
    layer = GQAQKVColumnParallelLinear(6, [8, 4], bias=False, gather_output=False)
    net = nn.ModuleDict({"qkv": layer, "embed": nn.Embedding(5, 6), "conv": nn.Conv2d(2, 3, 3)})
    before = [t.detach() for t in layer(drawn(2, 6))]
    model = LoraModel(net, LoraConfig(lora_rank=2, target_modules="qkv|embed|conv"))
    same(model.qkv(drawn(2, 6))[0], before[0])  # B begins with zeros
    fill(model)
    inputs = {"qkv": drawn(2, 6), "embed": torch.tensor([1, 4]), "conv": drawn(1, 2, 5, 5)}
    apart = {n: getattr(model, "module")[n](x) for n, x in inputs.items()}
    model.merge_lora()
    for n, x in inputs.items():
        for a, b in zip(apart[n], model.module[n](x)):
            same(a, b, 1e-4)
    try:
        LoraModel(nn.ModuleDict({"norm": nn.LayerNorm(3)}), LoraConfig(target_modules=["norm"]))
    except ValueError as e:
        assert "found norm of type LayerNorm, expected one of" in str(e)
    else:
        raise AssertionError("no error")


def whole_experts(moe, x, capacity=None):
    """By the definition: each token through each of its experts, one after the other. Weights are the seed's, whole."""
    torch.manual_seed(5)
    gate_up = torch.stack([nn.init.kaiming_uniform_(torch.empty(8, 8)).T for _ in range(4)]).requires_grad_()
    down = torch.stack([nn.init.kaiming_uniform_(torch.empty(8, 4)).T for _ in range(4)]).requires_grad_()
    flat, used, out = x.reshape(-1, 8), [0] * 4, []
    logits, affinities, index = moe.router(x)
    for t in range(flat.size(0)):
        taken = []
        for e in index[t].tolist():
            used[e] += 1
            if capacity is None or used[e] <= capacity:
                taken.append(e)
        total = sum((affinities[t, e] for e in taken), torch.zeros(())) + 1e-12
        parts = [torch.zeros(8)]
        for e in taken:
            gate, up = (flat[t] @ gate_up[e]).chunk(2)
            parts.append((nn.functional.silu(gate) * up) @ down[e] * affinities[t, e] / total)
        out.append(sum(parts))
    return torch.stack(out).view_as(x), gate_up, down


def experts(capacity, sequence_parallel=False):
    torch.manual_seed(5)
    mlps = ExpertMLPs(4, 2, 8, 4, "silu", True, capacity, normalize_top_k_affinities=True, sequence_parallel_enabled=sequence_parallel)
    torch.manual_seed(6)
    return MoE(RouterTopK(4, 2, 8, sequence_parallel), mlps, sequence_parallel_enabled=sequence_parallel, return_router_logits=True)


def case_experts(_):
    for capacity, sequence_parallel in ((None, False), (1.0, False), (None, True)):
        moe, alone = experts(capacity, sequence_parallel), experts(capacity)
        x = drawn(4, 3, 8, seed=2).requires_grad_()
        y = drawn(4, 3, 8, seed=2).requires_grad_()
        part = x.chunk(2)[tp()] if sequence_parallel else x
        out, logits = moe(part)
        want, gate_up, down = whole_experts(alone, y, None if capacity is None else 6)
        same(out, want.chunk(2)[tp()] if sequence_parallel else want, 1e-4)
        assert logits.shape == (12, 4)
        out.square().sum().backward()
        want.square().sum().backward()
        local = moe.expert_mlps.mlp_op.gate_up_proj.weight.grad
        same(local, torch.cat([h.chunk(2, 2)[tp()] for h in gate_up.grad.chunk(2, 2)], 2), 1e-4)
        same(moe.expert_mlps.mlp_op.down_proj.weight.grad, down.grad.chunk(2, 1)[tp()], 1e-4)
        if sequence_parallel:
            grads.allreduce_sequence_parallel_gradients(torch.optim.SGD(moe.router.parameters(), 0.1))
            dist.all_reduce(x.grad, group=parallel_state.get_tensor_model_parallel_group())
        same(x.grad, y.grad, 1e-4)
        same(moe.router.linear_router.weight.grad, alone.router.linear_router.weight.grad, 1e-4)


def case_experts_of_the_meta_device(_):
    from neuronx_distributed.parallel_layers.layers import ColumnParallelLinear, RowParallelLinear
    from neuronx_distributed.utils.model_utils import init_on_device, reinit_model

    with init_on_device("meta"):
        made = experts(None)
    seeds = iter((5, None))

    def init(module, device):
        if isinstance(module, (ColumnParallelLinear, RowParallelLinear)):
            if (seed := next(seeds)) is not None:
                torch.manual_seed(seed)
            module.init_weight_cpu()

    reinit_model(made.expert_mlps, torch.device("cpu"), init)
    for p, q in zip(made.expert_mlps.parameters(), experts(None).expert_mlps.parameters()):
        same(p, q)


def case_experts_over_ranks(_):
    parallel_state.initialize_model_parallel(expert_model_parallel_size=2, tensor_model_parallel_size=2)
    config = nxd.neuronx_distributed_config(tensor_parallel_size=2, expert_parallel_size=2, optimizer_config={"zero_one_enabled": True, "max_grad_norm": 0.1})
    for zero in (True, False):
        config["optimizer_config"]["zero_one_enabled"] = zero
        config["mixed_precision_config"] |= {"use_master_weights": zero, "use_fp32_grad_acc": zero}
        moe, alone = experts(None), experts(None)
        mine = parallel_state.get_data_parallel_rank()
        x = drawn(4, 3, 8, seed=2)
        out, _ = moe(x.chunk(2)[mine])
        want, gate_up, down = whole_experts(alone, x)
        same(out, want.chunk(2)[mine], 1e-4)
        optimizer = nxd.initialize_parallel_optimizer(config, torch.optim.SGD, moe.parameters(), lr=0.5)
        optimizer.zero_grad()
        moe(x.chunk(2)[mine])[0].square().mean().backward()
        want.square().mean().backward()
        theirs = [gate_up, down, alone.router.linear_router.weight]
        norm = nn.utils.clip_grad_norm_(theirs, 0.1)
        torch.optim.SGD(theirs, lr=0.5).step()
        optimizer.step()
        same(optimizer.grad_norm.detach().reshape(()), norm, 1e-4)
        ep = parallel_state.get_expert_model_parallel_rank()
        same(moe.expert_mlps.mlp_op.down_proj.weight.detach(), down.detach().chunk(2)[ep].chunk(2, 1)[tp()], 1e-4)
        same(moe.router.linear_router.weight.detach(), alone.router.linear_router.weight.detach(), 1e-4)
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)


def case_routers(_):
    x = drawn(12, 8)
    torch.manual_seed(0)
    _, affinities, index = RouterSinkhorn(4, 1, 8)(x)
    assert index.flatten().bincount(minlength=4).max() <= 4 and affinities.shape == (12, 4)  # balanced
    router = GroupLimitedRouter(8, 2, 8, n_group=4, topk_group=1)
    index = router(x)[2]
    assert torch.equal(index[:, 0] // 2, index[:, 1] // 2)  # of one group
    over = RouterTopK(4, 2, 8, apply_act_fn_over_topk=True)(x)[1]
    same(over.sum(1), torch.ones(12)), same((over > 0).sum(1), torch.full((12,), 2))
    same(load_balancing_loss_func(torch.zeros(6, 4), 4, 2), torch.tensor(2.0 * 4 / 2 / 4))
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    torch.manual_seed(5)
    mlps = ExpertMLPs(4, 2, 8, 4, "silu", True, None, normalize_top_k_affinities=True)
    torch.manual_seed(6)
    router = RouterTopK(4, 2, 8)
    plain, shuffled = MoE(router, mlps), MoE(router, mlps, token_shuffle_group_size=2)
    same(shuffled(drawn(3, 4, 8, seed=dist.get_rank() // 2))[0], plain(drawn(3, 4, 8, seed=dist.get_rank() // 2))[0], 1e-4)


def case_padded_heads(_):
    layer = layers.ColumnParallelLinear(4, 6, gather_output=False)
    pad_model(nn.Sequential(layer), 2, 3)
    assert layer.weight.shape == (4, 4) and layer.weight.tensor_model_parallel and not layer.weight[3].any()
    masks = [generate_padding_mask(48, 64, 8, 32, rank, chip).tolist() for rank, chip in ((0, hardware.TRN1), (31, hardware.TRN1), (3, hardware.TRN2))]
    assert masks == [[True, True], [False, False], [False, False]]
