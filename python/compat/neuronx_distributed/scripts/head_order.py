"""In which order GQAQKVColumnParallelLinear has the heads of its queries.

A rank has the key and value heads of its place in `kv_size_multiplier` copies laid one after another; its query heads are those that look
at them. So each group of queries that shares a key head is dealt to the copies in turn.
"""

import torch


def query_heads(heads, kv_heads, copies):
    """Numbers of the model's query heads, in the order of the ranks."""
    if heads % (kv_heads * copies):
        raise ValueError(f"found {heads} query heads for {kv_heads} key heads in {copies} copies, expected a multiple of {kv_heads * copies}")
    each = heads // (kv_heads * copies)
    return [group * copies * each + copy * each + i for copy in range(copies) for group in range(kv_heads) for i in range(each)]


def reordered(weight, order, dim):
    """A weight whose dim has the heads, in another order of them."""
    width = weight.size(dim) // len(order)
    rows = torch.cat([torch.arange(h * width, (h + 1) * width) for h in order])
    return weight.index_select(dim, rows)


def back(order):
    """The order that undoes one."""
    return sorted(range(len(order)), key=order.__getitem__)
