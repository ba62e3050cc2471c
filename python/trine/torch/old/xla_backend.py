"""The process group `xla` of torch.distributed: one process is what there is; more is refused with what to do."""

import torch.distributed as dist


def _create(store, rank, size, timeout):
    if size > 1:
        raise NotImplementedError(
            f"init_process_group('xla'): found {size} processes; one is what there is here. Run the script without torchrun; "
            "torch_neuronx.DataParallel and JAX's shard_map use several cores in one process"
        )
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


if hasattr(dist, "Backend") and "XLA" not in dist.Backend._plugins:
    dist.Backend.register_backend("xla", _create, devices=["xla", "cpu"])
