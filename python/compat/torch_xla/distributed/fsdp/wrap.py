"""torch_xla.distributed.fsdp.wrap."""

from trine.torch.old.fsdp import always_wrap_policy, recursive_wrap, size_based_auto_wrap_policy, transformer_auto_wrap_policy

__all__ = ["always_wrap_policy", "recursive_wrap", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy"]
