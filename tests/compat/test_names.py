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
NXD = """
libneuronxla neuron_xla_compile neuron_xla_wlo_compile
neuronxcc.nki.compiler.backends.neuron.dimensions VNC
neuronxcc.nki.kernels flash_fwd flash_attn_bwd
neuronxcc.nki.kernels.attention FlashConfig
neuronxcc.nki._pre_prod_kernels.collectives CollectivesConfig
neuronxcc.nki._pre_prod_kernels.ring_attention ring_attention_fwd ring_attention_bwd
neuronxcc.nki._private_kernels.collectives CollectivesConfig
torch_neuronx BucketModelConfig contexts
torch_neuronx.experimental.profiler.v2_x.custom_op_name hlo_debug
torch_neuronx.proto.metaneff_pb2 MetaNeff MetaTensor
torch_neuronx.pyhlo.hlo_pb2 HloComputationProto HloInputOutputAliasProto HloInstructionProto HloModuleProto Kind
torch_neuronx.pyhlo.xla_data_pb2
torch_neuronx.utils.utils SUPPORTED_TYPES get_platform_target
torch_neuronx.xla_impl.base xla_call
torch_neuronx.xla_impl.bucket_trace create_bucket_model
torch_neuronx.xla_impl.ops Argmax Softmax TopK nki_jit
torch_neuronx.xla_impl.structure Flattener Packer
torch_neuronx.xla_impl.torchscript replace_weights
torch_neuronx.xla_impl.trace HloArtifacts NeffArtifacts XLA_DTYPE_TO_METANEFF_DTYPE create_neuron_model generate_hlo generate_neff
  get_hlo_computation_by_id get_hlo_root_instruction get_torch_dtype hlo_entry_computation setup_compiler_dirs
"""


@pytest.mark.parametrize("names", [SCRIPTS, NXD], ids=["published scripts", "neuronx_distributed"])
def test_what_is_imported_is_there(names):
    lacking = []
    for line in names.replace("\n  ", " ").strip().splitlines():
        module, *names = line.split()
        found = importlib.import_module(module)
        lacking += [f"{module}.{n}" for n in names if not hasattr(found, n)]
    assert not lacking


def test_a_name_alone_says_so():
    import torch_neuronx  # noqa: F401 makes the classes known
    from torch_neuronx.pyhlo import hlo_pb2

    assert torch.classes.neuron.SPMDModel and torch.classes.neuron.LayoutTransformation
    with pytest.raises(NotImplementedError, match=r"torch_neuronx.pyhlo.hlo_pb2.HloModuleProto: found a call, .* trace with torch_neuronx.trace"):
        hlo_pb2.HloModuleProto()
    with pytest.raises(NotImplementedError, match="contexts.disable_nrt_load"):
        torch_neuronx.contexts.disable_nrt_load()


@pytest.mark.parametrize("causal, heads", [(True, 4), (False, 2)])
def test_attention_kernels(causal, heads):
    """As neuronx_distributed calls them: forward with a grid, then its own backward."""
    from neuronxcc.nki.kernels import flash_attn_bwd, flash_fwd
    from neuronxcc.nki.kernels.attention import FlashConfig

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, h, 256, 8, requires_grad=True) for h in (4, heads, heads))
    swapped = [t.detach().transpose(2, 3) for t in (q, k, v)]
    out, lse = flash_fwd[2, 4](*swapped, None, use_causal_mask=causal, mixed_precision=True, dropout_p=0.0, softmax_scale=None,
                               config=FlashConfig(should_transpose_v=True))  # fmt: skip
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    assert lse.shape == (2, 4, 128, 2)
    torch.testing.assert_close(out, want.detach(), rtol=1e-5, atol=1e-5)
    gradient = torch.randn_like(want)
    found = flash_attn_bwd[2, 4](*swapped, out.transpose(2, 3), gradient.transpose(2, 3), lse, None, use_causal_mask=causal)
    for f, w in zip(found, torch.autograd.grad(want, (q, k, v), gradient)):
        torch.testing.assert_close(f.transpose(2, 3), w, rtol=1e-4, atol=1e-5)
    with pytest.raises(NotImplementedError, match="flash_fwd: found dropout_p=0.1, expected 0"):
        flash_fwd(*swapped, dropout_p=0.1)
    with pytest.raises(ValueError, match="found a sequence of 100, expected a multiple of 128"):
        flash_fwd(*(t[..., :100] for t in swapped))


def test_a_ring_sends_around():
    from neuronxcc.nki._private_kernels.collectives import CollectivesConfig

    pairs = CollectivesConfig(replica_groups=[[0, 2, 4], [1, 3, 5]]).rank_src_tgt_pairs
    assert pairs[2] == [(0, 2), (2, 4), (4, 0)] and pairs[5] == [(1, 3), (3, 5), (5, 1)]


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
    assert Path(xser._get_tensor_file(xser._get_tensors_folder(tmp_path / "m.pt"), 0)).is_file()
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
