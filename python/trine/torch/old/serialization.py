"""torch_xla.utils.serialization: a file with the structure, and beside it a folder with one file for each tensor."""

import os
import shutil

import torch

from trine.torch.old import instances, ordinals


class TensorReference:
    """Stands for the tensor of a number."""

    def __init__(self, tid):
        self.tid = tid


def _get_tensors_folder(path):
    return f"{path}.tensors"


def _get_tensor_file(folder, tid):
    return os.path.join(folder, f"tensor_{tid}.pt")


def save(data, path, master_only=True, global_master=False, waits=True):
    """By the master alone unless told; the others wait. Without `waits` it is this process's own file."""
    if not waits or not master_only or ordinals.is_master_ordinal(not global_master):
        folder = _get_tensors_folder(path)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        known = []

        def apart(t):
            torch.save(t.detach().cpu(), _get_tensor_file(folder, len(known)))
            known.append(t)
            return TensorReference(len(known) - 1)

        torch.save(instances.for_each_instance_rewrite(data, lambda v: isinstance(v, torch.Tensor), apart), path)
    if waits:
        ordinals.rendezvous("torch_xla.utils.serialization.save")


def load(path):
    """To the CPU; a file that has its tensors inside is read too."""
    with torch.serialization.safe_globals([TensorReference]):
        data = torch.load(path, map_location="cpu", weights_only=True)
    folder = _get_tensors_folder(path)
    return instances.for_each_instance_rewrite(data, lambda v: isinstance(v, TensorReference), lambda r: torch.load(_get_tensor_file(folder, r.tid), weights_only=True))
