"""torch_xla.distributed.xla_backend."""

from trine.torch.old.xla_backend import ProcessGroupXla, new_xla_process_group

__all__ = ["ProcessGroupXla", "new_xla_process_group"]
