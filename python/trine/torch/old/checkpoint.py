"""torch_xla.utils.checkpoint: activations computed again in the backward, with the random numbers they had."""

import functools

import torch.utils.checkpoint


def checkpoint(function, *args, use_reentrant=True, **kwargs):
    """torch's own; the form of the default is torch_xla's, which takes tensors, one of them with a gradient, and none nested."""
    plain = not kwargs and not any(isinstance(a, (tuple, list, dict)) for a in args)
    needs = any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=use_reentrant and plain and needs, **kwargs)


def checkpoint_module(module):
    """The module with a forward that is computed again in the backward."""
    plain = module.forward

    @functools.wraps(plain)
    def forward(*args, **kwargs):
        return checkpoint(plain, *args, **kwargs)

    module.forward, module.recomputes = forward, True
    return module
