"""torch_xla.debug.profiler: names for stretches of a program, as torch.profiler shows them."""

import torch


class Trace(torch.profiler.record_function):
    """`with Trace("name"):`"""

    def __init__(self, name, **kwargs):
        super().__init__(name, " ".join(f"{k}={v}" for k, v in kwargs.items()) or None)


class StepTrace(Trace):
    """A step of training: what is recorded in it has run when it ends."""

    def __exit__(self, *error):
        from trine.torch.old import xla_model

        xla_model.mark_step()
        return super().__exit__(*error)
