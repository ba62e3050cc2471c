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

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        """An optimizer of `syncfree` decides on the device; for others the host reads whether a gradient was not finite."""
        if not isinstance(optimizer, SyncFree):
            return super()._maybe_opt_step(optimizer, optimizer_state, *args, **kwargs)
        found = sum(optimizer_state["found_inf_per_device"].values())
        return optimizer.step(*args, found_inf=found, **kwargs)


class SyncFree:
    """An optimizer whose step is undone on the device where `found_inf` is not zero: nothing is read by the host."""

    def step(self, closure=None, found_inf=None):
        if found_inf is None:
            return super().step(closure)
        before = {id(t): t.detach().clone() for t in self._tensors()}
        loss = super().step(closure)
        keeps = found_inf.reshape(()) == 0
        with torch.no_grad():
            for t in self._tensors():
                t.copy_(torch.where(keeps, t, before[id(t)] if id(t) in before else torch.zeros_like(t)))
        return loss

    def _tensors(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    yield p
                    yield from (v for v in self.state[p].values() if isinstance(v, torch.Tensor))


class SGD(SyncFree, torch.optim.SGD):
    pass


class Adam(SyncFree, torch.optim.Adam):
    def __init__(self, params, lr=1e-3, **options):
        super().__init__(params, lr=lr, **{"capturable": True, **options})


class AdamW(SyncFree, torch.optim.AdamW):
    def __init__(self, params, lr=1e-3, **options):
        super().__init__(params, lr=lr, **{"capturable": True, **options})
