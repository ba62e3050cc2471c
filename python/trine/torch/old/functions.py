"""torch_xla.core.functions: collectives that gradients pass through."""

import torch

from trine.torch.old import collectives
from trine.torch.old.ordinals import get_ordinal


class AllReduce(torch.autograd.Function):
    """The gradient of a sum over the ranks is the sum of the gradients."""

    @staticmethod
    def forward(ctx, value, reduce_type, scale, groups):
        if reduce_type != collectives.REDUCE_SUM and value.requires_grad:
            raise ValueError(f"all_reduce: found {reduce_type!r} of a tensor with a gradient, expected {collectives.REDUCE_SUM!r}")
        ctx.options = reduce_type, scale, groups
        return collectives.all_reduce(reduce_type, value, scale, groups)

    @staticmethod
    def backward(ctx, grad):
        reduce_type, scale, groups = ctx.options
        return collectives.all_reduce(reduce_type, grad, scale, groups), None, None, None


class AllGather(torch.autograd.Function):
    """The gradient is this rank's part of the sum of the gradients."""

    @staticmethod
    def forward(ctx, value, dim):
        ctx.dim, ctx.size = dim, value.size(dim)
        return collectives.all_gather(value, dim)

    @staticmethod
    def backward(ctx, grad):
        whole = collectives.all_reduce(collectives.REDUCE_SUM, grad)
        return whole.narrow(ctx.dim, get_ordinal() * ctx.size, ctx.size), None


def all_reduce(reduce_type, value, scale=1.0, groups=None):
    return AllReduce.apply(value, reduce_type, scale, groups)


def all_gather(value, dim=0):
    return AllGather.apply(value, dim)
