"""PyTorch on virtual NeuronCores: the device `neuron`, torch.compile's backend, and the emitter below both.

torch calls `autoload` by itself when it is imported. Needs torch; `import trine` does not. See docs/torch.md.
"""

import os
import sys


def autoload():
    """The entry point of the group `torch.backends`: makes the device known. Quick; rows load with the first op."""
    import torch

    if torch._C._get_privateuse1_backend_name() == "neuron" and hasattr(torch, "neuron"):
        return
    from trine.torch import installed

    installed.say_what_was_replaced()
    if why := installed.trouble():  # the backend of torch.compile still works on CPU tensors
        return installed.say_once(why)
    from trine import _torch

    torch.utils.rename_privateuse1_backend("neuron")
    from trine.torch import neuron, xla

    torch._register_device_module("neuron", neuron)
    torch._register_device_module("xla", xla)
    torch.utils.generate_methods_for_privateuse1_backend()
    _torch.set_handlers(_prepare, _describe, _step)
    neuron.streams.end_at_exit()  # before groups are registered, whose threads may wait for streams and end first
    if torch.distributed.is_available():
        from trine.torch import group

        group.register()
    from trine.torch import backward_threads, launcher, passing, saved, threads, xla

    threads.take()
    backward_threads.wait_at_exit()
    launcher.register()
    passing.register()
    saved.register()
    xla.register()
    _allow_fused()
    _say_what_is_here_instead(torch)
    from trine.debug import names

    if names.wanted:
        from trine.debug import torch_taps

        torch_taps.at_import()


def _allow_fused():
    """Optimisers with fused=True take parameters on `neuron`; here on its older name too."""
    from torch.optim import Optimizer

    optimizer = sys.modules[Optimizer.__module__]  # torch.optim hides the name
    known = optimizer._get_fused_kernels_supported_devices
    optimizer._get_fused_kernels_supported_devices = lambda: [*known(), "xla"]


def _say_what_is_here_instead(torch):
    """A call that only CUDA has ends in an error of torch's; ours says in which line, and what to write."""
    known = torch.cuda._lazy_init

    def _lazy_init():
        try:
            known()
        except (AssertionError, RuntimeError) as e:
            import traceback

            ours = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
            users = [f for f in traceback.extract_stack() if not f.filename.startswith(ours)]
            where = f"\n  at {users[-1].filename}:{users[-1].lineno}  {users[-1].line}" if users else ""
            raise type(e)(
                f"{e}{where}\n  found     a call for CUDA\n  expected  the device neuron: this machine has "
                f"{torch.neuron.device_count()} virtual NeuronCores and no GPU\n  try       \"neuron\" for \"cuda\", "
                "torch.neuron for torch.cuda, or torch.accelerator, which finds whichever is there"
            ) from None

    torch.cuda._lazy_init = _lazy_init


def _describe(*call):
    from trine.torch import lazy

    return lazy.describe(*call)


def _step(words, slots, mesh):
    """A program for a recorded step; `mesh`: of the devices that run it, where they are several."""
    from trine.torch import lazy

    answer = lazy.step(words, slots, mesh)
    return {**answer, "params": [tuple(p) for p in answer["params"]], "outputs": [tuple(o) for o in answer["outputs"]]}


def _prepare(name, overload, args, numbers):
    """A program for a call: from an earlier process, else from the rows."""
    from trine.torch import disk, lines

    key = disk.key(name, overload, args, numbers)
    answer = disk.find(key)
    if answer is None or lines.is_wanted():  # a profile asks for the user's line of each op
        from trine.torch import eager

        answer = eager.prepare(name, overload, args, numbers)
        if answer is not None:
            disk.keep(key, answer)
    return answer
