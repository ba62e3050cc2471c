"""A compiled program called with torch tensors: addresses in, addresses out, nothing copied that is dense.

Weights keep packed forms beside them (`forms_of`) as long as their bytes stay the same.
"""

import math

import torch

from trine import _core

try:
    from trine import _torch
except ImportError:  # built without torch: CPU tensors are torch's own
    _torch = None


class Program:
    """Text and signature of the emitter, compiled; call it with the caller's arguments."""

    def __init__(self, text, signature, static=(), device="cpu"):
        self.executable = _core.Executable.compile(text.encode())
        self.signature, self.device = signature, device
        self._is_neuron = device is not None and torch.device(device).type == "neuron"
        self._core = -1 if device is None or torch.device(device).index is None else torch.device(device).index
        self._inputs = [(i, order, i in static) for i, order in zip(signature.inputs, signature.orders)]
        allowed = self.executable.in_place
        self._over = {o: i for o, i in signature.donated.items() if o < len(allowed) and allowed[o] == i}

    def __call__(self, args, seed=None):
        """Tensors of the results, in the order of the program's outputs."""
        held, inputs, forms = [], [], []
        for index, order, is_static in self._inputs:
            if index == "seed":
                tensor = torch.tensor([new_seed() if seed is None else seed], dtype=torch.int64)
            else:
                tensor = dense_memory(args[index], order)
            held.append(tensor)
            inputs.append(tensor.data_ptr())
            forms.append(forms_of(tensor) if is_static else None)
        results = []
        for o, (dims, dtype) in enumerate(self.signature.outputs):
            over = self._over.get(o)
            results.append(new_memory(dims, dtype, self.device) if over is None else held[over])
        if self._is_neuron and _torch.are_streams_busy():
            for tensor in (*held, *results):
                _torch.settle(tensor)
        self.executable.launch(inputs, [r.data_ptr() for r in results], forms, self._core)
        return results

    def results(self, args, seed=None):
        """As the graph's output lists them."""
        found = self(args, seed)
        return [found[w] if isinstance(w, int) else w[1] for w in self.signature.layout]


def new_seed():
    """From torch's own generator, so that torch.manual_seed decides what a program draws."""
    return torch.randint(2**62, ()).item()


_LARGE = 2**20  # elements: from here on fresh pages cost more than what keeps old ones


def new_memory(dims, dtype, device):
    """A tensor for a result."""
    if _torch is not None and math.prod(dims) >= _LARGE and torch.device(device).type == "cpu":
        return _torch.empty_stored(dims, dtype)
    return in_memory(torch.empty(dims, dtype=dtype, device=device))


def in_memory(tensor):
    """The same tensor; what is recorded for it on `xla` has run, and its address is its bytes'."""
    if tensor.device.type == "xla":
        _torch.settle(tensor)
    return tensor


def dense_memory(tensor, order):
    """The tensor whose memory is the program's parameter: itself where it lies as compiled for, else a copy."""
    if tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        tensor = tensor.clone()
    if order is not None:
        tensor = tensor.permute(order)
    return in_memory(tensor if tensor.is_contiguous() else tensor.contiguous())


_SAMPLES = 64


def _fingerprint(tensor):
    """Cheap evidence that bytes changed where torch's own counter cannot tell (`.data` writes). Read by the host: the chip runs nothing for it."""
    flat = (tensor if tensor.is_cpu else _torch.cpu_alias(tensor)).detach().view(-1)
    step = max(flat.numel() // _SAMPLES, 1)
    return flat[::step].sum().item()


def forms_of(tensor):
    """Packed forms of a tensor, dropped when it was written to; none of one whose writes torch does not count."""
    if tensor.dim() < 2 or not tensor.is_floating_point() or tensor.device.type == "xla" or tensor.is_inference():
        return None
    state = (tensor.data_ptr(), tensor._version, _fingerprint(tensor))
    old = tensor.__dict__.get("_trine_kept")
    if old is not None and old[0] == state:
        return old[1]
    forms = _core.Kept()
    tensor._trine_kept = (state, forms)
    return forms
