"""neuronx_distributed.pipeline.comm: values between the ranks of neighbouring stages.

What is sent is told through the store the first time; then tensors alone travel, each direction and chunk by a tag of its own.
"""

import pickle
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_unflatten


@dataclass
class Summary:
    """Of what is sent, a leaf of its nesting: a tensor's shape, or a value that is none."""

    shape: tuple | None = None
    dtype: torch.dtype | None = None
    requires_grad: bool = False
    value: object = None


class Mail:
    def __init__(self, name, device):
        self._name, self._device, self._sent, self._known = name, device, [], {}
        self._store = dist.distributed_c10d._get_default_store()

    def send(self, values, to, tag, key):
        """What lies inside, in order: tensors; others than tensors are told with the shapes and how all is nested."""
        leaves, nesting = tree_flatten(values)
        summaries = [Summary(tuple(v.shape), v.dtype, v.requires_grad) if isinstance(v, torch.Tensor) else Summary(value=v) for v in leaves]
        self._store.set(f"{self._name}/{key}/{dist.get_rank()}-{to}", pickle.dumps(tree_unflatten(summaries, nesting)))
        for v in leaves:
            if isinstance(v, torch.Tensor):
                t = v.detach().contiguous()
                self._sent.append((dist.isend(t, to, tag=tag), t))
        return leaves

    def receive(self, source, tag, key):
        """(what lies inside, nested as it was): leaves that need a gradient where those that were sent do."""
        name = f"{self._name}/{key}/{source}-{dist.get_rank()}"
        (summaries, nesting), leaves = tree_flatten(pickle.loads(self._store.get(name))), []
        self._store.delete_key(name)
        for leaf in summaries:
            if leaf.shape is None:
                leaves.append(leaf.value)
                continue
            t = torch.empty(leaf.shape, dtype=leaf.dtype, device=self._device)
            dist.recv(t, source, tag=tag)
            leaves.append(t.requires_grad_(leaf.requires_grad))
        return leaves, tree_unflatten(leaves, nesting)

    def wait(self):
        for work, _ in self._sent:
            work.wait()
        self._sent.clear()
