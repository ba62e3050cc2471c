"""torch_xla in one process: nested values, files of tensors apart, states of random numbers, checkpoints of activations."""

import importlib
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")
import trine.torch  # noqa: E402

trine.torch.autoload()
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/compat"))

import torch_xla.core.xla_model as xm  # noqa: E402
import torch_xla.utils.serialization as xser  # noqa: E402
import torch_xla.utils.utils as xu  # noqa: E402
from torch_xla.utils.checkpoint import checkpoint  # noqa: E402


SCRIPTS = """
torch_xla.core.xla_model mark_step xla_device master_print rendezvous is_master_ordinal all_reduce REDUCE_SUM add_step_closure save
  optimizer_step reduce_gradients all_gather reduce_scatter all_to_all set_rng_state get_rng_state ToXlaTensorArena check_view_sharing
  REDUCE_MAX REDUCE_MIN get_ordinal xrt_world_size RateTracker
torch_xla.runtime world_size global_ordinal local_ordinal device_type use_spmd
torch_xla.core.xla_env_vars HOST_WORLD_SIZE TPU_NUM_DEVICES
torch_xla.distributed.parallel_loader MpDeviceLoader ParallelLoader
torch_xla.distributed.xla_multiprocessing spawn MpModelWrapper MpSerialExecutor
torch_xla.distributed.xla_backend ProcessGroupXla
torch_xla.distributed.zero_redundancy_optimizer ZeroRedundancyOptimizer
torch_xla.distributed.fsdp XlaFullyShardedDataParallel checkpoint_module
torch_xla.distributed.fsdp.wrap transformer_auto_wrap_policy size_based_auto_wrap_policy
torch_xla.experimental.pjrt_backend
torch_xla.experimental.pjrt local_process_count
torch_xla.test.test_utils print_training_update
torch_xla.utils.checkpoint checkpoint
torch_xla.utils.serialization save load _get_tensors_folder _get_tensor_file
torch_xla.utils.utils getenv_as get_free_tcp_ports
torch_xla._XLAC _xla_sync_multi
torch_neuronx.utils get_platform_target
neuronx_distributed neuronx_distributed_config initialize_parallel_model initialize_parallel_optimizer save_checkpoint load_checkpoint
neuronx_distributed.parallel_layers parallel_state mappings layers save load clip_grad_norm parallel_cross_entropy ColumnParallelLinear
neuronx_distributed.parallel_layers.layers ColumnParallelLinear RowParallelLinear ParallelEmbedding SPMDRank OutputChannelParallelConv2d
neuronx_distributed.parallel_layers.layer_norm LayerNorm
neuronx_distributed.parallel_layers.pad generate_padding_mask
neuronx_distributed.parallel_layers.random model_parallel_xla_manual_seed
neuronx_distributed.parallel_layers.utils requires_init_pg_override get_local_world_size divide move_all_tensor_to_cpu
neuronx_distributed.parallel_layers.grads bucket_allreduce_gradients
neuronx_distributed.optimizer NeuronZero1Optimizer
neuronx_distributed.pipeline NxDPPModel
neuronx_distributed.lightning NeuronXLAStrategy NeuronXLAPrecisionPlugin NeuronLTModule NeuronTQDMProgressBar NeuronTensorBoardLogger NeuronHooksCallback NeuronCheckpointIO NeuronXLAAccelerator
neuronx_distributed.modules.qkv_linear GQAQKVColumnParallelLinear
neuronx_distributed.modules.lora LoraConfig
neuronx_distributed.modules.moe.model MoE
neuronx_distributed.modules.moe.routing RouterTopK
neuronx_distributed.modules.moe.expert_mlps ExpertMLPs
neuronx_distributed.modules.moe.loss_function load_balancing_loss_func
neuronx_distributed.kernels.flash_attn nki_flash_attn_func
neuronx_distributed.kernels.ring_attention_kernel nki_ring_attn_func
neuronx_distributed.overrides.transformer_overrides apply_rotary_pos_emb
neuronx_distributed.utils.adamw_fp32_optim_params AdamW_FP32OptimParams
neuronx_distributed.utils.batch_utils get_batch_on_this_context_parallel_rank
neuronx_distributed.utils.model_utils move_model_to_device
neuronx_distributed.utils.utils hardware
neuronx_distributed.utils.logger get_logger
"""


def test_what_published_scripts_import_is_there():
    lacking = []
    for line in SCRIPTS.replace("\n  ", " ").strip().splitlines():
        module, *names = line.split()
        found = importlib.import_module(module)
        lacking += [f"{module}.{n}" for n in names if not hasattr(found, n)]
    assert not lacking


def test_a_loader_runs_steps_every_so_many_batches():
    import torch_xla.debug.metrics as metrics
    from torch_xla.distributed.parallel_loader import MpDeviceLoader, ParallelLoader

    metrics.clear_all()
    seen = [b.item() for b in MpDeviceLoader([torch.tensor(i) for i in range(5)], xm.xla_device(), batches_per_execution=2)]
    assert seen == list(range(5)) and metrics.counter_value("MarkStep") == 3
    loader = ParallelLoader([torch.ones(1)] * 2, [xm.xla_device()]).per_device_loader(xm.xla_device())
    assert sum(len(b) for b in loader) == 2
    with pytest.raises(ValueError, match="found cpu, expected one of"):
        ParallelLoader([], [xm.xla_device()]).per_device_loader("cpu")


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


def test_tensors_of_nested_values_are_exchanged():
    t = torch.ones(2)
    given = {"x": [t, (t, 3)], "y": Pair(torch.zeros(1), "text")}
    calls = []
    found = xm.ToXlaTensorArena(lambda all: calls.append(len(all)) or [v + 1 for v in all], lambda v: isinstance(v, torch.Tensor)).transform(given)
    assert calls == [2] and found["x"][0] is found["x"][1][0] and found["x"][1][1] == 3 and found["y"].a.tolist() == [1]
    xm.check_view_sharing([t, torch.zeros(2), t])
    with pytest.raises(RuntimeError, match="share a view"):
        xm.check_view_sharing([t, t[:1]])
    assert len(set(xu.get_free_tcp_ports(3))) == 3 and xu.getenv_as("NOT_THERE", int, 5) == 5
    assert list(xu.SampleGenerator(7, 2)) == [7, 7]


def test_tensors_are_files_of_their_own(tmp_path):
    w = torch.arange(3.0, device="xla") * 2
    xser.save({"model": {"w": w, "again": w}, "step": 3}, tmp_path / "m.pt")
    assert len(list((tmp_path / "m.pt.tensors").iterdir())) == 1
    found = xser.load(tmp_path / "m.pt")
    assert found["step"] == 3 and found["model"]["w"].tolist() == [0, 2, 4] and found["model"]["again"] is found["model"]["w"]


def test_a_state_of_random_numbers_is_put_back():
    xm.set_rng_state(7)
    first = torch.rand(3, device="xla").cpu()
    state = xm.get_rng_state()
    second, third = torch.rand(3, device="xla").cpu(), torch.rand(3, device="xla").cpu()
    xm.set_rng_state(state)
    assert torch.equal(second, torch.rand(3, device="xla").cpu()) and not torch.equal(first, second)
    with xm.fork_rng():
        torch.rand(5, device="xla").cpu()
    assert torch.equal(third, torch.rand(3, device="xla").cpu())


@pytest.mark.parametrize("reentrant", [True, False])
def test_activations_are_computed_again(reentrant):
    torch.manual_seed(0)
    layer, calls = torch.nn.Linear(4, 4).to("xla"), []

    def f(x):
        calls.append(1)
        return torch.nn.functional.dropout(torch.tanh(layer(x)), 0.5)

    x = torch.randn(8, 4, device="xla", requires_grad=True)
    y = checkpoint(f, x, use_reentrant=reentrant)
    y.sum().backward()
    assert len(calls) == 2
    mask = (y.detach() != 0).float()
    want = torch.autograd.grad((torch.tanh(layer(x)) * 2 * mask).sum(), x)[0]
    torch.testing.assert_close(x.grad.cpu(), want.cpu())
