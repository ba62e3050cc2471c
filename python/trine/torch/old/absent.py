"""Names that packages of others import but training never calls: HLO and NEFF protocol buffers, tracing for inference, compiling by files.

Each is a class, so that annotations and subclasses of it load; making one, or asking for what is in it, says what to use instead.
"""

INSTEAD = "trace with torch_neuronx.trace, or serve with `trine serve`"


def _say(name):
    raise NotImplementedError(f"{name}: found a call, but here it is only a name, so that what imports it loads; {INSTEAD}")


class _Absent(type):
    def __call__(cls, *args, **kwargs):
        _say(cls.__qualname__)

    def __getattr__(cls, name):
        if name.startswith("__"):  # what inspect and typing look for
            raise AttributeError(name)
        _say(f"{cls.__qualname__}.{name}")


def absent(module, *names):
    """{name: a stand-in} for a module's globals."""
    return {name: _Absent(name, (), {"__module__": module, "__qualname__": f"{module}.{name}"}) for name in names}


def torch_classes():
    """torch.classes.neuron's and torch.ops.neuron's, which C++ of the real torch_neuronx registers."""
    import torch

    for name, stand_in in absent("torch.classes.neuron", "SPMDModel", "LayoutTransformation", "Model").items():
        if name not in vars(torch.classes.neuron):
            setattr(torch.classes.neuron, name, stand_in)


__all__ = ["absent", "torch_classes"]
