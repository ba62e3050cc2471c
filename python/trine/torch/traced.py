"""Is torch writing down a graph? Then a kernel is called by an op of its own; see kernels.py."""

import torch
from torch.utils._pytree import tree_flatten


def is_traced(arguments):
    tensors = [t for t in tree_flatten(arguments)[0] if isinstance(t, torch.Tensor)]
    if not tensors:
        return False
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:
        return True
    return any(torch._is_functional_tensor(t) or t.is_meta and type(t) is not torch.Tensor for t in tensors)
