"""Run by torchrun: collectives inside trine.timed(), on the device's group and beside it on the host's. Rank 0 prints JSON."""

import json

import torch
import torch.distributed as dist

import trine
from trine import _torch

dist.init_process_group("neuron")
rank, size = dist.get_rank(), dist.get_world_size()
at = torch.device("neuron", rank % torch.neuron.device_count())
host = dist.new_group(backend="gloo")
x, whole = torch.ones(1 << 18, device=at), torch.empty(size << 18, device=at)
dist.all_reduce(x)  # before: not counted
with trine.timed("trn1.32xlarge") as t:
    for _ in range(2):
        dist.all_reduce(x)
    dist.all_gather_into_tensor(whole, x)
    for _ in range(1 + 4 * rank):
        x = x * 2
    dist.all_reduce(torch.ones(4), group=host)
    heard = [row for row in _torch.exchanged() if row[1] == host.group_name]
rows = t.over_ranks()
if rank == 0:
    print(json.dumps({"exchanges": [e.as_dict() for e in t.exchanges], "heard": heard, "ranks": rows, "text": str(t), "time": t.time_ns,
                      "parts": t.device_ns + t.launch_ns + t.collectives_ns}))  # fmt: skip
dist.destroy_process_group()
