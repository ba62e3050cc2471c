"""`torch.neuron`, in the shape of `torch.cuda`: devices, memory, random numbers, counters.

Ops of the default stream have run when they return; those of other streams, and collectives, run beside them.
"""

import contextlib
import os

import torch

from trine import _torch
from trine.torch import memory, streams  # noqa: F401 - torch.neuron.memory
from trine.torch.memory import *  # noqa: F403
from trine.torch.streams import *  # noqa: F403

OutOfMemoryError = torch.OutOfMemoryError
_initialized = True  # torch.utils.checkpoint asks before it keeps the generator's state


def init():
    """Nothing to do: the device is ready when torch is imported."""
    pass


def is_initialized():
    """Always true."""
    return True


def is_available():
    """Whether the chosen instance has NeuronCores."""
    return _torch.device_count() > 0


def _is_in_bad_fork():
    return False


def device_count():
    """NeuronCores of the chosen instance that this process may use."""
    return _torch.device_count()


def say_if_crowded():
    """Processes that torchrun started on this machine and that no core is left for: said once, by the first of them."""
    started, cores = int(os.environ.get("LOCAL_WORLD_SIZE", 1)), device_count()
    if started > cores and os.environ.get("LOCAL_RANK", "0") == "0":
        from trine import progress

        progress.say_once(
            f"found {started} processes on this machine, expected at most {cores}, the NeuronCores that each may use: cores are "
            f"shared here, which the Neuron runtime refuses; start fewer (--nproc_per_node={cores}) or choose a larger instance "
            "(TRINE_INSTANCE, `trine use`)"
        )


def current_device():
    """Index of the device that tensors without an index go to."""
    return torch.accelerator.current_device_index()


def set_device(device):
    """Makes a device the current one, by index, name or torch.device."""
    torch.accelerator.set_device_index(_index(device))


def _index(device):
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return current_device() if index is None else index


@contextlib.contextmanager
def device(device):
    """Makes a device the current one for a block."""
    before = current_device()
    set_device(device)
    try:
        yield
    finally:
        set_device(before)


def get_device_name(device=None):
    """Which device it is: instance, chip and core."""
    return _torch.device_name(_index(device))


def get_device_properties(device=None):
    """name, total_memory and multi_processor_count, as torch.cuda's; the name is the instance's family: trn1, trn2u, inf2."""
    import types

    from trine.nki import machine

    family = (machine.chosen_instance() or machine.DEFAULT_INSTANCE).partition(".")[0]
    return types.SimpleNamespace(name=family, total_memory=memory.mem_get_info(device)[1], multi_processor_count=1, index=_index(device))


def get_device_capability(device=None):
    """(generation of the NeuronCore, 0)"""
    from trine.nki import machine

    instance = machine.chosen_instance() or machine.DEFAULT_INSTANCE
    return machine.chip(machine.instance(instance)["chip"])["generation"], 0


def can_device_access_peer(device, peer_device):
    """True for any two different devices: all lie in this machine's memory."""
    return _index(device) != _index(peer_device)


class device_of:  # noqa: N801 - torch.cuda's name
    """Makes the device of a tensor the current one; others change nothing."""

    def __init__(self, obj):
        self._block = device(obj.device) if getattr(obj, "is_neuron", False) else contextlib.nullcontext()

    def __enter__(self):
        return self._block.__enter__()

    def __exit__(self, *error):
        return self._block.__exit__(*error)


def synchronize(device=None):
    """Waits until all streams of a device have run what was issued on them."""
    torch.accelerator.synchronize(_index(device))


# random numbers


def manual_seed(seed):
    """Seeds the generator of the current device."""
    _torch.manual_seed(current_device(), seed % 2**64)


def manual_seed_all(seed):
    """Seeds the generators of all devices."""
    for i in range(device_count()):
        _torch.manual_seed(i, seed % 2**64)


def seed():
    """Seeds the generator of the current device at random."""
    manual_seed(torch.seed())


def seed_all():
    """Seeds the generators of all devices at random."""
    manual_seed_all(torch.seed())


def initial_seed():
    """The seed of the current device's generator."""
    return _torch.get_state(current_device())[0]


def get_rng_state(device="neuron"):
    """The generator's state as a tensor of bytes."""
    return torch.tensor(list(b"".join(w.to_bytes(8, "little") for w in _torch.get_state(_index(device)))), dtype=torch.uint8)


def set_rng_state(state, device="neuron"):
    """Puts back what get_rng_state gave."""
    data = bytes(state.tolist())
    _torch.set_state(_index(device), int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little"))


def get_rng_state_all():
    """The state of every device's generator."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(states):
    """Puts back what get_rng_state_all gave."""
    for i, state in enumerate(states):
        set_rng_state(state, i)


# autocast


def get_amp_supported_dtype():
    """Formats that torch.autocast may compute in."""
    return [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]


def is_bf16_supported(including_emulation=True):
    """Always true."""
    return True


def is_tf32_supported():
    """Always true."""
    return True


# what ran where


def fallbacks():
    """Calls that torch's CPU ran because no row could, by op."""
    return dict(_torch.fallbacks())


def fallback_reasons():
    """Why torch's CPU ran them, by op."""
    from trine.torch import eager

    return dict(eager.REASONS)


def programs():
    """How many programs eager ops have so far."""
    return _torch.cache_size()
