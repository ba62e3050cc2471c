"""torch_xla.amp: autocast and GradScaler over the device `xla`."""

import torch


class autocast(torch.autocast):
    """bfloat16 unless told; the first argument is the device."""

    def __init__(self, device=None, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("xla", dtype=dtype or torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch's own, for gradients on `xla`."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True,
                 use_zero_grad=False):
        super().__init__("xla", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
