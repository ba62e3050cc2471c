"""Weights from a file, whichever kind it is."""

from pathlib import Path


def is_gguf(path):
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"GGUF"


def load(model, path):
    from trine.models import weights
    from trine.models.gguf import Gguf
    from trine.models.safetensors import SafeTensors

    if is_gguf(path):
        source = Gguf(path)
        return weights.load(model, source, source.names(), fixed=source.fixed)
    return weights.load(model, SafeTensors(path), model.family.names, model.family.transposed)
