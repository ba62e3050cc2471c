"""neuronx_distributed.parallel_layers.loss_functions: cross entropy of logits that are cut over the vocabulary.

Three reductions over the ranks: the largest logit, the target's logit, the sum of the exponentials.
"""

import torch

from neuronx_distributed.parallel_layers import mappings, parallel_state


class _ParallelCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, label_smoothing, group):
        size, start = logits.size(-1), logits.size(-1) * group.rank()
        shifted = logits.float() - mappings._reduce(logits.float().amax(-1), "max", group)[..., None]
        outside = (target < start) | (target >= start + size)
        local = (target - start).masked_fill(outside, 0)
        picked = shifted.gather(-1, local[..., None])[..., 0].masked_fill(outside, 0.0)
        picked = mappings._reduce(picked, process_group=group)
        exps = shifted.exp()
        total = mappings._reduce(exps.sum(-1), process_group=group)
        loss, soft = total.log() - picked, exps / total[..., None]
        words = size * group.size()
        ctx.smoothing = label_smoothing * words / (words - 1) if label_smoothing > 0 else 0.0
        if label_smoothing > 0:
            mean = mappings._reduce(soft.log().sum(-1), process_group=group) / words
            loss = (1.0 - ctx.smoothing) * loss - ctx.smoothing * mean
        ctx.words, ctx.dtype = words, logits.dtype
        ctx.save_for_backward(soft, outside, local)
        return loss

    @staticmethod
    def backward(ctx, grad):
        soft, outside, local = ctx.saved_tensors
        hit = torch.zeros_like(soft).scatter_(-1, local[..., None], (~outside).to(soft.dtype)[..., None])
        found = soft - (1.0 - ctx.smoothing) * hit - ctx.smoothing / ctx.words
        return (found * grad[..., None]).to(ctx.dtype), None, None, None


def parallel_cross_entropy(vocab_parallel_logits, target, label_smoothing=0.0, process_group=None):
    """One loss for each target. A target that no rank has (-100) gives the log of the sum: mask it."""
    group = process_group if process_group is not None else parallel_state.get_tensor_model_parallel_group()
    return _ParallelCrossEntropy.apply(vocab_parallel_logits, target, label_smoothing, group)


def from_parallel_logits_to_logprobs(vocab_parallel_logits, target, inference=False):
    """(batch, sequence - 1) of log probabilities of the tokens that follow."""
    return -parallel_cross_entropy(vocab_parallel_logits, target.roll(-1, -1))[:, :-1]
