"""neuronx_distributed.parallel_layers.checkpointing: one file for each tensor parallel rank and pipeline stage; whole weights cut."""

import os

import torch

from neuronx_distributed.parallel_layers import parallel_state as state
from neuronx_distributed.parallel_layers.utils import cast_all, move_all_tensor_to_cpu
from trine.torch.old import ordinals, serialization


def ensure_directory_exists(filename):
    os.makedirs(os.path.dirname(filename), exist_ok=True)


def _path(output_dir, tp_rank=None, pp_rank=None, dp_rank=None):
    tp = state.get_tensor_model_parallel_rank() if tp_rank is None else tp_rank
    pp = state.get_pipeline_model_parallel_rank() if pp_rank is None else pp_rank
    return os.path.join(output_dir, f"tp_rank_{tp:02d}_pp_rank_{pp:02d}" + ("" if dp_rank is None else f"_dp_rank_{dp_rank:02d}"))


def save(checkpoint, output_dir, save_serially=True, save_xser=False, down_cast_bf16=False, master_dp_only=True):
    """By the first data parallel rank, or all."""
    if down_cast_bf16:
        checkpoint = cast_all(checkpoint)
    path = _path(output_dir, dp_rank=None if master_dp_only else state.get_data_parallel_rank())
    path = path if save_xser else os.path.join(path, "checkpoint.pt")
    ensure_directory_exists(path)
    ordinals.rendezvous("neuronx_distributed.save")
    if state.get_data_parallel_rank() == 0 or not master_dp_only:
        if save_xser:
            serialization.save(checkpoint, path, waits=False)
        else:
            torch.save(move_all_tensor_to_cpu(checkpoint), path)
    ordinals.rendezvous("neuronx_distributed.saved")


def load(output_dir, model_or_optimizer=None, model=None, load_xser=False, sharded=True, weights_only=False, strict=True, master_dp_only=True):
    """This rank's part, put into a model if there is one; sharded=False: a file of whole weights, cut here. master_dp_only as in save."""
    model = model if model is not None else model_or_optimizer
    if not sharded:
        whole = serialization.load(output_dir) if load_xser else torch.load(output_dir, map_location="cpu", weights_only=weights_only)
        found = get_sharded_model_dict(model, whole.get("model", whole))
        model.load_state_dict(found, strict=strict)
        return found
    path = _path(output_dir, dp_rank=None if master_dp_only else state.get_data_parallel_rank())
    found = serialization.load(path) if load_xser else torch.load(os.path.join(path, "checkpoint.pt"), map_location="cpu", weights_only=weights_only)
    if model is not None:
        model.load_state_dict(found.get("model", found), strict=strict)
    return found


def get_sharded_model_dict(model, model_state_dict):
    """This rank's part of a state dict of whole weights, as the parameters of the model say."""
    from neuronx_distributed.parallel_layers.layers import create_local_weight

    whole, out = dict(model_state_dict), {}
    modules = dict(model.named_modules())
    for name, value in model.state_dict().items():
        owner = modules.get(name.rsplit(".", 1)[0]) if "." in name else model
        if name in whole and hasattr(owner, "preshard_hook"):
            owner.preshard_hook(whole, name)
        if name not in whole:
            continue
        p = model.get_parameter(name) if name in dict(model.named_parameters()) else value
        if getattr(p, "tensor_model_parallel", False) and whole[name].shape != p.shape:
            out[name] = create_local_weight(whole[name], p.partition_dim, p.size(p.partition_dim), p.partition_stride, rank_ordering=p.rank_ordering)
        else:
            out[name] = whole[name]
    return out
