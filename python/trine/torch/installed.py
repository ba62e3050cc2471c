"""What of an installation is not as PyTorch's device needs it, in one sentence: torch itself, its version, packages of others
that took the names of python/compat."""

import importlib.metadata
import re
import sys

from trine import _core
from trine.progress import say_once

PIP = f"{sys.executable} -m pip"
OTHERS = {"torch-neuronx": "torch_neuronx", "torch-xla": "torch_xla"}  # of PyPI: the first is a placeholder that only raises


def version(name):
    """Of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def wanted():
    """The torch that the device was built for, else the one that Trine asks for."""
    listed = importlib.metadata.requires("trine") or ()
    return _core.torch_version or next((r.group(1) for r in (re.match(r"torch==([\d.]+)", line) for line in listed) if r), "")


def trouble():
    """Why there is no device, or None."""
    found = version("torch")
    if found is None:
        return f"found no torch, expected {wanted()}: device=\"neuron\" and torch_xla need it; try  {PIP} install 'torch=={wanted()}'"
    if not _core.torch_version:
        return (f"this Trine was built without torch, so there is neither device=\"neuron\" nor torch_xla; try  {PIP} install "
                "--force-reinstall --no-deps  and the folder of its sources")  # fmt: skip
    if found.partition("+")[0] != _core.torch_version:
        return (f"found torch {found}, expected {_core.torch_version}, which this Trine was built for: there is neither "
                f"device=\"neuron\" nor torch_xla; try  {PIP} install 'torch=={_core.torch_version}'")  # fmt: skip
    return None


def need_device():
    """For the packages that are nothing without it."""
    if why := trouble():
        raise ImportError(why)


def say_what_was_replaced():
    """pip lets one package write over another's files without a word."""
    ours = version("trine-compat")
    for name, module in OTHERS.items() if ours else ():
        if found := version(name):
            what = "which is a placeholder" if name == "torch-neuronx" and found == "1.0" else "which runs on other machines"
            say_once(f"pip put {name} {found} of PyPI, {what}, over the {module} of trine-compat; try  {PIP} uninstall {name}  and then  "
                     f"{PIP} install --force-reinstall --no-deps trine-compat=={ours}  (python/compat of Trine's sources)")  # fmt: skip
