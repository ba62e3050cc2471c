"""Functions of torch_xla's C++ module that scripts call: sync, reports, and which storage a tensor is."""

from trine.torch.old import metrics, xla_model


def _xla_step_marker(device="", devices=(), wait=True, reset_scope=True):
    xla_model.mark_step(wait)


def _xla_sync_multi(tensors, devices=(), wait=True, sync_xla_data=True):
    xla_model.mark_step(wait)


def _xla_get_tensor_id(tensor):
    """The same for tensors that share a storage."""
    return tensor.untyped_storage()._cdata


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


__all__ = [name for name in dir() if name.startswith("_xla_")]
