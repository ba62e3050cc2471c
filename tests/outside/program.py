"""program.py NAME DEVICE OUT: runs a file of programs on a device and keeps its arrays."""

import importlib
import sys

import numpy as np

name, device, file = sys.argv[1:]
arrays = importlib.import_module(f"programs.{name}").run(device)
np.savez(file, **{k: np.asarray(v) for k, v in arrays.items()})
