"""Arrays for others by DLPack: the memory of a virtual NeuronCore is the host's, and DLPack has no name for the device.

Whoever asks gets a CPU tensor, a copy of its own; jnp.from_dlpack puts a foreign tensor on JAX's CPU, from where
jax.device_put moves it here.
"""

import jax
import numpy as np
from jax._src import array
from jax._src.dlpack import DLDeviceType


def register(platform: str) -> None:
    kind = array.ArrayImpl
    known, known_device = kind.__dlpack__, kind.__dlpack_device__

    def is_ours(x):
        return len(x.devices()) == 1 and x.platform() == platform

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if not is_ours(self):
            return known(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if copy is False:
            raise BufferError(f"an array on {platform} cannot be shared without a copy")
        if self.dtype.isbuiltin == 1:
            return np.array(self).__dlpack__()
        return known(jax.device_put(self, jax.devices("cpu")[0]), max_version=max_version)  # NumPy has no name for it

    def __dlpack_device__(self):
        return (DLDeviceType.kDLCPU, 0) if is_ours(self) else known_device(self)

    kind.__dlpack__, kind.__dlpack_device__ = __dlpack__, __dlpack_device__
