"""torch_xla.distributed.parallel_loader: batches moved to the device ahead of their use."""

import queue
import threading

import torch
from torch.utils._pytree import tree_leaves, tree_map

from trine.torch.old import xla_model

_END = object()


class MpDeviceLoader:
    """A DataLoader whose batches are on the device; a thread moves the next ones meanwhile. What was recorded runs when the
    next batch is asked for, or every batches_per_execution-th."""

    def __init__(self, loader, device, loader_prefetch_size=16, device_prefetch_size=8, batches_per_execution=1, input_sharding=None, **_):
        self._loader, self._device, self._ahead, self._every = loader, torch.device(device), device_prefetch_size, batches_per_execution
        self._sharding = input_sharding  # a ShardingSpec, or one for each name of a batch

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
                    self._deal(moved)
                    if not offer(moved):
                        return
                offer(_END)
            except BaseException as e:  # raised where the batch is asked for
                offer(e)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            count = 0
            while (batch := ready.get()) is not _END:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
                count += 1
                if count % self._every == 0:
                    xla_model.mark_step()
            if count % self._every:
                xla_model.mark_step()
        finally:
            stop.set()
            thread.join()


    def _deal(self, batch):
        """Marks a batch as input_sharding says."""
        if self._sharding is None:
            return
        pairs = [(self._sharding, batch)]
        if isinstance(self._sharding, dict):
            missing = sorted(set(self._sharding) - set(batch))
            if missing:
                raise ValueError(f"input_sharding: found {missing}, expected names of the batch: {sorted(batch)}")
            pairs = [(spec, batch[name]) for name, spec in self._sharding.items()]
        for spec, part in pairs:
            for t in tree_leaves(part):
                if spec is not None and isinstance(t, torch.Tensor) and spec.can_apply(t):
                    spec.apply(t)


class ParallelLoader:
    """The older form: per_device_loader(device) iterates."""

    def __init__(self, loader, devices, **options):
        self._loader, self._devices, self._options = loader, [torch.device(d) for d in devices], options

    def per_device_loader(self, device):
        if torch.device(device) not in self._devices:
            raise ValueError(f"per_device_loader: found {device}, expected one of {[str(d) for d in self._devices]}")
        return MpDeviceLoader(self._loader, device, **self._options)

    def close(self):
        pass
