"""Functions of torch_xla's C++ module that scripts call: sync, reports, and which storage a tensor is."""

from trine.torch.old import metrics, spmd, xla_model


def _xla_step_marker(device="", devices=(), wait=True, reset_scope=True):
    xla_model.mark_step(wait)


def _xla_sync_multi(tensors, devices=(), wait=True, sync_xla_data=True):
    xla_model.mark_step(wait)


def _xla_get_tensor_id(tensor):
    """The same for tensors that share a storage."""
    return tensor.untyped_storage()._cdata


_xla_get_tensor_view_alias_id = _xla_get_tensor_id


def _xla_get_default_device():
    return str(xla_model.xla_device())


def _xla_get_all_devices():
    return xla_model.get_xla_supported_devices()


def _xla_real_devices(devices=()):
    return xla_model.xla_real_devices(devices or xla_model.get_xla_supported_devices())


def _xla_set_rng_seed(seed, device=None):
    xla_model.set_rng_state(seed, device)


def _xla_get_rng_seed(device=None):
    return xla_model.get_rng_state(device)


def _xla_set_use_full_mat_mul_precision(use_full_mat_mul_precision=True):
    pass  # f32 is f32 here


def _xla_metrics_report():
    return metrics.metrics_report()


def _xla_counter_names():
    return metrics.counter_names()


def _xla_counter_value(name):
    return metrics.counter_value(name)


def _xla_metric_names():
    return metrics.metric_names()


def _xla_metric_data(name):
    return metrics.metric_data(name)


def _xla_get_devices():
    return xla_model.get_xla_supported_devices()


def _xla_wait_device_ops(devices=()):
    xla_model.wait_device_ops(devices)


def _get_xla_sharding_spec(tensor):
    return spmd.get_xla_sharding_spec(tensor)


def _get_xla_sharding_type(tensor):
    return spmd.get_sharding_type(tensor)


def _get_xla_sharding_specs(tensors):
    return [spmd.get_xla_sharding_spec(t) for t in tensors]


__all__ = [name for name in dir() if name.startswith(("_xla_", "_get_xla_"))]
