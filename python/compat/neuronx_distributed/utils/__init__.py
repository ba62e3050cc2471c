"""neuronx_distributed.utils: the device of this process, and the mode in which all runs on CPU tensors over gloo."""

import os

import torch


def cpu_mode():
    return os.environ.get("NXD_CPU_MODE", "0") == "1"


def get_device():
    if cpu_mode():
        return torch.device("cpu")
    import torch_xla.core.xla_model as xm

    return xm.xla_device()


def mark_step():
    if not cpu_mode():
        import torch_xla.core.xla_model as xm

        xm.mark_step()


def master_print(msg):
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
        print(msg, flush=True)
