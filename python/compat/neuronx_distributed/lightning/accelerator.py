"""neuronx_distributed.lightning.accelerator: as many devices on this host as processes were started on it; each process has one."""

import os

import torch
from lightning.pytorch.accelerators import Accelerator


class NeuronXLAAccelerator(Accelerator):
    def setup_device(self, device):
        pass  # a process has one device, the current one

    def teardown(self):
        pass

    def get_device_stats(self, device):
        return {}

    @staticmethod
    def parse_devices(devices):
        count = NeuronXLAAccelerator.auto_device_count()
        if devices in ("auto", -1, "-1"):
            return count
        found = int(devices) if isinstance(devices, str) else devices
        if found not in (1, count):
            raise ValueError(f"devices: found {devices!r}, expected {count}, as many as processes were started on this host, or 'auto'")
        return found

    @staticmethod
    def get_parallel_devices(devices):
        return [torch.device("xla", i) for i in range(devices)]

    @staticmethod
    def auto_device_count():
        return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def name():
        return "neuron"
