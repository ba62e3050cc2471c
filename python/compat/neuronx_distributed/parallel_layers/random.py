"""neuronx_distributed.parallel_layers.random: random numbers that differ between tensor parallel ranks, and those that do not."""

import contextlib

import torch

from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.utils import cpu_mode

_NAME = "model-parallel-rng"


def _get():
    if cpu_mode():
        return torch.get_rng_state()
    import torch_xla.core.xla_model as xm

    return xm.get_rng_state()


def _set(value):
    if cpu_mode():
        return torch.set_rng_state(value)
    import torch_xla.core.xla_model as xm

    xm.set_rng_state(value)


class XLARNGStatesTracker:
    """States by name; `fork` draws from one of them and leaves the others."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.states_, self.seeds_ = {}, set()

    def get_states(self):
        return dict(self.states_)

    def set_states(self, states):
        self.states_ = dict(states)

    def add(self, name, seed):
        if seed in self.seeds_ or name in self.states_:
            raise ValueError(f"rng tracker: found {name!r} with seed {seed} twice, expected a name and a seed of its own for each")
        self.seeds_.add(seed)
        before = _get()
        torch.manual_seed(seed)
        self.states_[name] = _get()
        _set(before)

    @contextlib.contextmanager
    def fork(self, name=_NAME):
        if name not in self.states_:
            raise ValueError(f"rng tracker: found no state {name!r}, expected one of {sorted(self.states_)}")
        before = _get()
        _set(self.states_[name])
        try:
            yield
        finally:
            self.states_[name] = _get()
            _set(before)


_tracker = XLARNGStatesTracker()


def get_xla_rng_tracker():
    return _tracker


def model_parallel_xla_manual_seed(seed):
    """The plain seed is one for a tensor parallel group; inside `fork` each rank has its own."""
    offset = seed + 2718
    torch.manual_seed(seed)
    _tracker.reset()
    _tracker.add(_NAME, offset + parallel_state.get_tensor_model_parallel_rank())
