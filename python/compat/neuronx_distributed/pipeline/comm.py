"""neuronx_distributed.pipeline.comm: values between the ranks of neighbouring stages.

What is sent is told through the store the first time; then tensors alone travel, each direction and chunk by a tag of its own.
"""

import pickle

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_unflatten


class Mail:
    def __init__(self, name, device):
        self._name, self._device, self._sent, self._known = name, device, [], {}
        self._store = dist.distributed_c10d._get_default_store()

    def send(self, values, to, tag, key):
        """What lies inside, in order: tensors; others than tensors are told with the shapes and how all is nested."""
        leaves, nesting = tree_flatten(values)
        about = [(tuple(v.shape), v.dtype, v.requires_grad) if isinstance(v, torch.Tensor) else ("value", v) for v in leaves]
        self._store.set(f"{self._name}/{key}/{dist.get_rank()}-{to}", pickle.dumps((about, nesting)))
        for v in leaves:
            if isinstance(v, torch.Tensor):
                t = v.detach().contiguous()
                self._sent.append((dist.isend(t, to, tag=tag), t))
        return leaves

    def receive(self, source, tag, key):
        """(what lies inside, nested as it was): leaves that need a gradient where those that were sent do."""
        name = f"{self._name}/{key}/{source}-{dist.get_rank()}"
        (about, nesting), leaves = pickle.loads(self._store.get(name)), []
        self._store.delete_key(name)
        for what in about:
            if what[0] == "value":
                leaves.append(what[1])
                continue
            shape, dtype, needs = what
            t = torch.empty(shape, dtype=dtype, device=self._device)
            dist.recv(t, source, tag=tag)
            leaves.append(t.requires_grad_(needs))
        return leaves, tree_unflatten(leaves, nesting)

    def wait(self):
        for work, _ in self._sent:
            work.wait()
        self._sent.clear()
