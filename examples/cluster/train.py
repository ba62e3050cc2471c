"""A data-parallel run that survives the loss of a node: every step's state is on the shared file system, and a job that
Slurm starts again goes on from the last one.

    trine cluster run -- sbatch --nodes 2 train.sbatch /shared/run --steps 20
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch_neuronx  # noqa: F401  the device `neuron`

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--seconds-per-step", type=float, default=0.0, help="time to wait in each, to be interrupted in")
asked = parser.parse_args()

dist.init_process_group("neuron")
rank, world = dist.get_rank(), dist.get_world_size()
device = torch.device("neuron", int(os.environ["LOCAL_RANK"]))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)).to(device)
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

state = asked.folder / "state.pt"
first = 0
if state.exists():
    saved = torch.load(state, map_location="cpu")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]

for step in range(first, asked.steps):
    data = torch.Generator().manual_seed(step * world + rank)
    x = torch.randn(32, 16, generator=data).to(device)
    loss = ((model(x) - x.sin().sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shared = loss.detach().clone()
    dist.all_reduce(shared, dist.ReduceOp.AVG)
    if rank == 0:
        print(f"step {step} loss {float(shared):.9g}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, state.with_suffix(".new"))
        state.with_suffix(".new").replace(state)  # whole or not at all
    time.sleep(asked.seconds_per_step)
    dist.barrier()
dist.destroy_process_group()
