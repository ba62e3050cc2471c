"""neuronx_distributed.trainer.checkpoint: TAG/model and TAG/optim with a file for each rank that has its own part, TAG/scheduler.pt,
TAG/user_content.pt, and TAG/done once all ranks have written. use_xser keeps each tensor in a file of its own."""

import atexit
import copy
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

from neuronx_distributed.optimizer import NeuronEPZero1Optimizer, NeuronZero1Optimizer
from neuronx_distributed.parallel_layers import parallel_state as state
from neuronx_distributed.parallel_layers.utils import move_all_tensor_to_cpu
from neuronx_distributed.trainer.optimizer import NxDOptimizer
from trine.torch.old import ordinals, serialization


def _path(kind, dp=False, ep=False):
    parts = [f"dp_rank_{state.get_data_parallel_rank() if dp else 0:02d}"]
    parts += [f"ep_rank_{state.get_expert_model_parallel_rank():02d}"] if ep else []
    parts += [f"tp_rank_{state.get_tensor_model_parallel_rank():02d}", f"pp_rank_{state.get_pipeline_model_parallel_rank():02d}"]
    return os.path.join(kind, "_".join(parts) + ".pt")


def _is_zero1(optimizer, asked=False):
    if isinstance(optimizer, NxDOptimizer):
        return optimizer.nxd_config["optimizer_config"]["zero_one_enabled"]
    return asked if isinstance(optimizer, dict) else isinstance(optimizer, (NeuronZero1Optimizer, NeuronEPZero1Optimizer))


def completed_tags(folder):
    """Tags whose checkpoint is whole, the newest last."""
    if not os.path.isdir(folder):
        return []
    done = [(os.stat(os.path.join(folder, t, "done")).st_mtime_ns, t) for t in os.listdir(folder) if os.path.exists(os.path.join(folder, t, "done"))]
    return [t for _, t in sorted(done)]


def has_checkpoint(checkpoint_dir_str):
    return bool(completed_tags(checkpoint_dir_str))


class CheckpointIOState:
    """Writes, here or in a thread."""

    def __init__(self, async_save=False):
        self._pool, self._running = ThreadPoolExecutor(1) if async_save else None, []

    def run(self, work):
        if self._pool is None:
            return work()
        self._running.append(self._pool.submit(work))

    def wait_all(self):
        while self._running:
            self._running.pop(0).result()


_states, _rounds = {}, {}


def _iostate(async_save):
    if async_save not in _states:
        _states[async_save] = CheckpointIOState(async_save)
        atexit.register(_states[async_save].wait_all)
    return _states[async_save]


def _write(data, path, use_xser):
    part = f"{path}.part"
    if use_xser:
        return serialization.save(data, path, waits=False)
    torch.save(data, part)
    os.replace(part, path)


def _finish(store, key, size, rank, folder, tag, count):
    """The last of all ranks to have written makes it known; old ones go."""
    if store.add(key, 1) == size:
        open(os.path.join(folder, tag, "done"), "w").close()
        for old in completed_tags(folder)[:-count] if count and count > 0 else ():
            os.remove(os.path.join(folder, old, "done"))
            shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
        store.set(f"{key} done", "")


def save_checkpoint(checkpoint_dir_str, tag, model=None, optimizer=None, scheduler=None, user_content=None, num_workers=8, use_xser=False,
                    num_kept_ckpts=None, async_save=False, zero1_optimizer=False, use_zero1_dcp=False, avoid_saving_lower_precision_weights=False):  # fmt: skip
    folder, tag, iostate = str(checkpoint_dir_str), str(tag), _iostate(async_save)
    iostate.wait_all()
    rank, root = dist.get_rank(), os.path.join(folder, tag)
    ordinals.rendezvous("neuronx_distributed.save_checkpoint")
    if rank == 0 and os.path.exists(os.path.join(root, "done")):
        os.remove(os.path.join(root, "done"))
    for kind in ("model", "optim"):
        os.makedirs(os.path.join(root, kind), exist_ok=True)
    experts, items = state.get_expert_model_parallel_size() > 1, []
    if optimizer is not None:
        zero1 = _is_zero1(optimizer, zero1_optimizer)
        if zero1 or state.get_data_parallel_rank() == 0 or (experts and state.get_expert_data_parallel_rank() == 0):
            items.append((optimizer if isinstance(optimizer, dict) else optimizer.state_dict(), _path("optim", dp=zero1, ep=experts and not zero1)))
    if model is not None and state.get_expert_data_parallel_rank() == 0:
        items.append((model if isinstance(model, dict) else model.state_dict(), _path("model", ep=experts)))
    if rank == 0:
        items += [(scheduler.state_dict(), "scheduler.pt")] if scheduler is not None else []
        items += [(user_content, "user_content.pt")] if user_content is not None else []
    items = [(move_all_tensor_to_cpu(data), path) for data, path in items]
    if async_save:
        items = [(copy.deepcopy(data), path) for data, path in items]
    _rounds[root] = _rounds.get(root, 0) + 1
    store, key = dist.distributed_c10d._get_default_store(), f"save_checkpoint/{root}/{_rounds[root]}"

    def work():
        for data, path in items:
            _write(data, os.path.join(root, path), use_xser and os.path.dirname(path) != "")
        _finish(store, key, dist.get_world_size(), rank, folder, tag, num_kept_ckpts)

    iostate.run(work)
    if not async_save:
        store.wait([f"{key} done"])


def finalize_checkpoint():
    """What is being written is on disk afterwards, on all ranks."""
    for iostate in _states.values():
        iostate.wait_all()
    ordinals.rendezvous("neuronx_distributed.finalize_checkpoint")


def _read(path):
    if not os.path.exists(path):
        raise FileNotFoundError(f"load_checkpoint: found no {path}, expected the file of this rank: the checkpoint may be of another layout")
    return serialization.load(path) if os.path.isdir(f"{path}.tensors") else torch.load(path, map_location="cpu", weights_only=False)


def load_checkpoint(path, tag=None, model=None, optimizer=None, scheduler=None, num_workers=8, strict=True, use_zero1_dcp=False):
    """Of a tag, or the newest; gives what user_content was saved with it."""
    if tag is None:
        tags = completed_tags(path)
        if not tags:
            raise RuntimeError(f"load_checkpoint: found no whole checkpoint in {path}, expected a folder with a file `done`")
        tag = tags[-1]
    root, experts = os.path.join(str(path), str(tag)), state.get_expert_model_parallel_size() > 1
    if model is not None:
        found = _read(os.path.join(root, _path("model", ep=experts)))
        if isinstance(model, dict):
            model.update(found)
        else:
            model.load_state_dict(found, strict=strict)
    if optimizer is not None:
        zero1 = _is_zero1(optimizer, os.path.exists(os.path.join(root, "optim", "dp_rank_01_tp_rank_00_pp_rank_00.pt")))
        found = _read(os.path.join(root, _path("optim", dp=zero1, ep=experts and not zero1)))
        optimizer.update(found) if isinstance(optimizer, dict) else optimizer.load_state_dict(found)
    if scheduler is not None:
        scheduler.load_state_dict(torch.load(os.path.join(root, "scheduler.pt"), map_location="cpu", weights_only=False))
    ordinals.rendezvous("neuronx_distributed.load_checkpoint")
    content = os.path.join(root, "user_content.pt")
    return torch.load(content, map_location="cpu", weights_only=False) if os.path.exists(content) else None


__all__ = ["CheckpointIOState", "completed_tags", "finalize_checkpoint", "has_checkpoint", "load_checkpoint", "save_checkpoint"]
