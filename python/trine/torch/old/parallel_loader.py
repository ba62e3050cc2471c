"""torch_xla.distributed.parallel_loader: batches moved to the device ahead of their use."""

import queue
import threading

import torch
from torch.utils._pytree import tree_map

from trine.torch.old import xla_model

_END = object()


class MpDeviceLoader:
    """A DataLoader whose batches are on the device; a thread moves the next ones meanwhile."""

    def __init__(self, loader, device, loader_prefetch_size=16, device_prefetch_size=8, **_):
        self._loader, self._device, self._ahead = loader, torch.device(device), device_prefetch_size

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        ready, stop = queue.Queue(self._ahead), threading.Event()

        def offer(item):
            """Waits for room; False once nobody will take it: the loop was left, or the program is ending."""
            while not stop.is_set() and threading.main_thread().is_alive():
                try:
                    ready.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def load():
            try:
                for batch in self._loader:
                    moved = tree_map(lambda v: v.to(self._device) if isinstance(v, torch.Tensor) else v, batch)
                    if not offer(moved):
                        return
                offer(_END)
            except BaseException as e:  # raised where the batch is asked for
                offer(e)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            while (batch := ready.get()) is not _END:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
                xla_model.mark_step()
        finally:
            stop.set()
            thread.join()


class ParallelLoader:
    """The older form: per_device_loader(device) iterates."""

    def __init__(self, loader, devices, **options):
        self._loader, self._devices, self._options = loader, [torch.device(d) for d in devices], options

    def per_device_loader(self, device):
        return MpDeviceLoader(self._loader, device)

    def close(self):
        pass
