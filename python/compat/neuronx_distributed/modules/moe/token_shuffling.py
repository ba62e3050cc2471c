"""neuronx_distributed.modules.moe.token_shuffling: tokens dealt at random over ranks of several batches, so that experts fill evenly."""

import torch

from neuronx_distributed.parallel_layers import mappings, parallel_state


def _exchanged(x):
    group = parallel_state.get_token_shuffle_group()
    return mappings._Map.apply(x, lambda v: mappings._same(mappings._all_to_all(v, 0, 0, group)), lambda g: mappings._all_to_all(g, 0, 0, group))


def token_shuffle(hidden_states):
    """(tokens of the group at random, the order that token_unshuffle needs)"""
    order = torch.randperm(hidden_states.size(0), device=hidden_states.device)
    return _exchanged(hidden_states[order]), order


def token_unshuffle(hidden_states, order):
    return _exchanged(hidden_states)[torch.argsort(order)]
