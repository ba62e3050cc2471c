"""Which ranks share a tensor, a stage, a batch, a sequence or experts: the world as [PP, DP, CP, TP], TP innermost.

Expert regions read the same order as [PP, DP of experts, EP, TP]. Two layouts follow the links of a chip: TP 4 on Trainium1
takes every eighth core of a node, and TP over half an instance of Trainium2 joins rows 0 and 3 and rows 1 and 2 of its torus.
"""

import os
from typing import NamedTuple

import torch

from neuronx_distributed.utils.utils import hardware


class ParallelGroups(NamedTuple):
    tp_groups: list
    dp_groups: list
    pp_groups: list
    ep_model_groups: list
    ep_data_groups: list
    cp_groups: list


def _along(grid, dim):
    """The rows of a grid along one of its dims, in order of the others."""
    return grid.movedim(dim, -1).reshape(-1, grid.shape[dim]).tolist()


def _strided(world, pp, dp, cp, tp, on_host):
    """Trainium1 with TP 4."""
    local = on_host // tp
    grid = torch.arange(world).reshape(pp, max(dp // local, 1), cp, tp, min(local, dp))
    return grid.transpose(-1, -2).reshape(pp, dp, cp, tp)


def _rows_of_torus(world, pp, dp, cp, tp, on_host):
    """Trainium2 with TP over half an instance."""
    order = torch.arange(world).reshape(-1, 4, on_host // 4)[:, [0, 3, 1, 2]]
    return order.reshape(pp, dp, cp, tp)


def groups(world, tp=1, pp=1, cp=1, ep=1, chip=hardware.TRN1, lnc=1, on_host=None):
    """All groups of a world of so many ranks on each host, or an error that says what does not divide."""
    on_host = on_host or min(int(os.environ.get("LOCAL_WORLD_SIZE", world)), world)
    if world % (tp * pp * cp):
        raise RuntimeError(f"initialize_model_parallel: found {world} ranks, expected a multiple of TP {tp} x PP {pp} x CP {cp}, "
                           "so that the data parallel size is a whole number")
    if world % (tp * pp * ep):
        raise RuntimeError(f"initialize_model_parallel: found {world} ranks, expected a multiple of TP {tp} x PP {pp} x EP {ep}, "
                           "so that the data parallel size of experts is a whole number")
    dp, of_experts = world // (tp * pp * cp), world // (tp * pp * ep)
    if chip is hardware.TRN1 and tp == 4 and dp > 1:
        if ep > 1:
            raise NotImplementedError(f"initialize_model_parallel: found TP 4 and EP {ep} on Trainium1, expected another TP with experts")
        grid = _strided(world, pp, dp, cp, tp, on_host)
    elif chip is hardware.TRN2 and (lnc, tp) in ((1, 64), (2, 32)) and world >= 64:
        grid = _rows_of_torus(world, pp, dp, cp, tp, on_host)
    else:
        grid = torch.arange(world).reshape(pp, dp, cp, tp)
    experts = torch.arange(world).reshape(pp, of_experts, ep, tp) if ep > 1 else grid.reshape(pp, dp * cp, 1, tp)
    return ParallelGroups(_along(grid, 3), _along(grid, 1), _along(grid, 0), _along(experts, 2), _along(experts, 1), _along(grid, 2))
