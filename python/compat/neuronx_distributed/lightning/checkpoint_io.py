"""neuronx_distributed.lightning.checkpoint_io: a checkpoint is a folder with a part from every tensor parallel rank and stage."""

import os
import shutil

from lightning.fabric.plugins import CheckpointIO

from neuronx_distributed.parallel_layers.checkpointing import load, save


class NeuronCheckpointIO(CheckpointIO):
    def __init__(self, save_load_xser=True, weights_only=False):
        self.save_load_xser, self.weights_only = save_load_xser, weights_only

    def save_checkpoint(self, checkpoint, path, storage_options=None, master_dp_only=True):
        if storage_options is not None:
            raise TypeError(f"save_checkpoint: found storage_options={storage_options!r}, expected none: parts are written to files")
        save(checkpoint, os.fspath(path), save_xser=self.save_load_xser, master_dp_only=master_dp_only)

    def load_checkpoint(self, path, map_location=None, weights_only=None, master_dp_only=True):
        only = self.weights_only if weights_only is None else weights_only
        return load(os.fspath(path), load_xser=self.save_load_xser, master_dp_only=master_dp_only, weights_only=only)

    def remove_checkpoint(self, path):
        """By one rank; the strategy calls it."""
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)
