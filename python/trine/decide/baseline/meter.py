"""Power of a GPU."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading
import time


class Meter:
    """Power of the GPU: NVML's energy counter, else its power samples, else nvidia-smi's; None where there is none."""

    def __init__(self, device):
        self.handle = self.nvml = None
        self.source, self.samples, self.running = "none", [], False
        if device != "cuda":
            return
        with contextlib.suppress(OSError, AttributeError):
            nvml, handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
            index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(int(index) if index.isdigit() else 0, ctypes.byref(handle)) == 0:
                self.nvml, self.handle = nvml, handle
                self.source = "NVML energy counter" if self.energy() is not None else "NVML power samples"
        if self.nvml is None and shutil.which("nvidia-smi"):
            self.source = "nvidia-smi power samples"
        if self.source.endswith("samples"):
            threading.Thread(target=self.sample, daemon=True).start()

    def read(self, function, kind):
        value = kind()
        failed = self.nvml is None or getattr(self.nvml, function)(self.handle, ctypes.byref(value))
        return None if failed else value.value

    def energy(self):
        millijoules = self.read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        return None if millijoules is None else millijoules * 1e-3

    def power(self):
        if self.nvml is not None:
            milliwatts = self.read("nvmlDeviceGetPowerUsage", ctypes.c_uint)
            return None if milliwatts is None else milliwatts * 1e-3
        asked = ["nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits", "-i", "0"]
        with contextlib.suppress(ValueError, OSError, subprocess.SubprocessError):
            return float(subprocess.run(asked, capture_output=True, text=True, timeout=10).stdout.strip())
        return None

    def clock(self):
        value = ctypes.c_uint()
        if self.nvml is None or self.nvml.nvmlDeviceGetClockInfo(self.handle, 1, ctypes.byref(value)):
            return None
        return value.value

    def sample(self):
        while True:
            if self.running:
                watts = self.power()
                if watts is not None:
                    self.samples.append(watts)
            time.sleep(0.02)

    def begin(self):
        self.samples.clear()
        self.running = True
        return self.energy() if self.source == "NVML energy counter" else None

    def watts(self, energy, seconds):
        self.running = False
        if energy is not None:
            return (self.energy() - energy) / seconds
        return sum(self.samples) / len(self.samples) if self.samples else None
