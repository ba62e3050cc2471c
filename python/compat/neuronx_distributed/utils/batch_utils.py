"""neuronx_distributed.utils.batch_utils: this rank's part of a batch's sequences."""

import torch

from neuronx_distributed.parallel_layers import parallel_state


def shift_labels(batch):
    """Labels moved one to the left, -100 at the end: a part of a sequence knows the token that follows it."""
    def shifted(v):
        return torch.cat([v[:, 1:], torch.full_like(v[:, :1], -100)], 1)

    return {k: shifted(v) if k == "labels" else v for k, v in batch.items()}


def get_batch_on_this_context_parallel_rank(batch):
    n = parallel_state.get_context_model_parallel_size()
    if n == 1:
        return batch
    out, rank = {}, parallel_state.get_context_model_parallel_rank()
    for k, v in shift_labels(batch).items():
        if v is not None and v.shape[1] > 1:
            if v.shape[1] % n:
                raise ValueError(f"context parallel: found {k} of {list(v.shape)}, expected a sequence that {n} divides")
            v = v.chunk(n, 1)[rank]
        out[k] = v
    return out
