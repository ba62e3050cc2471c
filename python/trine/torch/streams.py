"""Streams and events of `torch.neuron`: torch's own, on this device.

Ops of the default stream have run when they return. Those of another run on its thread, in their order, beside everything else
(src/api/torch/eager/streams.h); what one of them throws is thrown again where somebody next waits for a stream or reads a value.
"""

import atexit

import torch

from trine import _torch

__all__ = (
    "Stream", "Event", "current_stream", "default_stream", "set_stream", "is_current_stream_capturing", "StreamContext", "stream",
)


class Stream(torch.Stream):
    """Ops of one stream run in their order, beside those of other streams."""

    def __new__(cls, device=None, priority=0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        index = device if isinstance(device, int) or device is None else torch.device(device).index
        at = torch.device("neuron", torch.accelerator.current_device_index() if index is None else index)
        return super().__new__(cls, device=at, priority=priority, **kwargs)

    def record_event(self, event=None):
        """Records an event, a new one if none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event


class Event(torch.Event):
    """A moment on a stream."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        return super().__new__(cls, device="neuron", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)

    def elapsed_time(self, end_event):
        """Milliseconds from this event to another; both are recorded and made with enable_timing."""
        if not isinstance(end_event, torch.Event):
            raise TypeError(f"Event.elapsed_time: found {type(end_event).__name__}, expected an event")
        return _torch.elapsed_ms(self, end_event)


def end_at_exit():
    """Threads of streams end before the interpreter does; what they have not begun is dropped."""
    atexit.register(_torch.end_streams)


def _of(found):
    return Stream(stream_id=found.stream_id, device_index=found.device_index, device_type=found.device_type)


def current_stream(device=None):
    """The stream that ops of this thread go to."""
    return _of(torch.accelerator.current_stream(device))


def default_stream(device=None):
    """The stream of who chose none."""
    stream = torch.accelerator.current_stream(device)
    return Stream(stream_id=0, device_index=stream.device_index, device_type=stream.device_type)


def set_stream(stream):
    """Makes a stream the current one; None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


def is_current_stream_capturing():
    """Always false: there are no captured graphs."""
    return False


class StreamContext:
    """`with torch.neuron.stream(s):` - s is the current stream in the block; None changes nothing."""

    def __init__(self, stream):
        self.stream, self._before = stream, None

    def __enter__(self):
        if self.stream is not None:
            self._before = current_stream(self.stream.device)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_):
        set_stream(self._before)


def stream(stream):
    """A block in which a stream is the current one."""
    return StreamContext(stream)
