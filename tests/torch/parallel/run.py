"""run.py OUT RANKS DEVICE… -- CASE…: cases of this folder, as many processes as ranks, on each device in turn.

A case is a function of a module of this folder that takes the device's type and returns tensors by name. What every rank got lies
in OUT/<device>-<rank>.pt: {case: tensors by name, or the text of what was raised}. The processes are forked, so that torch is
imported once.
"""

import importlib
import os
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

BACKENDS = {"cpu": "gloo", "neuron": "neuron", "xla": "xla"}


def plain(value):
    """A tensor of the host, whatever it was."""
    if isinstance(value, dist.tensor.DTensor):
        value = value.full_tensor()
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def run_cases(device, names):
    found = {}
    for name in names:
        module, case = name.split(".")
        torch.manual_seed(0)
        try:
            found[name] = {k: plain(v) for k, v in getattr(importlib.import_module(module), case)(device).items()}
        except Exception:  # one case of many: the test says which
            found[name] = traceback.format_exc()
    return found


def rank_main(out, rank, size, devices, names):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    for device in devices:
        dist.init_process_group(BACKENDS[device], init_method=f"file://{out}/store-{device}", rank=rank, world_size=size)
        found = run_cases(device, names)
        torch.save(found, out / f"{device}-{rank}.pt")
        dist.barrier()
        dist.destroy_process_group()


def main():
    at = sys.argv.index("--")
    out, size, devices, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:at], sys.argv[at + 1 :]
    torch.set_num_threads(1)
    for module in {name.split(".")[0] for name in names}:
        importlib.import_module(module)
    started = []
    for rank in range(size):
        pid = os.fork()
        if not pid:
            try:
                rank_main(out, rank, size, devices, names)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        started.append(pid)
    bad = [rank for rank, pid in enumerate(started) if os.waitpid(pid, 0)[1]]
    return f"ranks {bad} ended with an error" if bad else 0


if __name__ == "__main__":
    sys.exit(main())
