"""torch_xla.utils.utils: walks over nested values, settings of the environment, free ports, data that is made up."""

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
import time

import torch


def as_list(t):
    return t if isinstance(t, (tuple, list)) else [t]


def getenv_as(name, type, defval=None):
    """The environment's value as a type; a bool is a whole number."""
    found = os.environ.get(name)
    if found is None:
        return defval
    return bool(int(found)) if type is bool else type(found)


def check_env_flag(name, default=""):
    return os.getenv(name, default).upper() in ("ON", "1", "YES", "TRUE", "Y")


def get_free_tcp_ports(n=1):
    with contextlib.ExitStack() as all_open:
        sockets = [all_open.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("localhost", 0))
        return [s.getsockname()[1] for s in sockets]


def for_each_instance(value, select_fn, fn):
    """fn of every value inside that is selected: in lists, dicts, sets and the fields of objects; each once."""
    _walk(value, select_fn, fn, set())


def _walk(value, select_fn, fn, seen):
    if id(value) in seen:
        return
    seen.add(id(value))
    if select_fn(value):
        fn(value)
    elif isinstance(value, dict):
        for k, v in value.items():
            _walk(k, select_fn, fn, seen)
            _walk(v, select_fn, fn, seen)
    elif isinstance(value, (list, tuple, set)):
        for v in value:
            _walk(v, select_fn, fn, seen)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.Tensor)):
        for v in list(vars(value).values()):
            _walk(v, select_fn, fn, seen)


def for_each_instance_rewrite(value, select_fn, fn):
    """The value with each that is selected exchanged; a value met twice stays one."""
    return _rewritten(value, select_fn, fn, {})


def _rewritten(value, select_fn, fn, known):
    if id(value) in known:
        return known[id(value)][1]
    if select_fn(value):
        found = fn(value)
    elif isinstance(value, dict):
        found = type(value)() if type(value) is not dict else {}
        known[id(value)] = value, found
        for k, v in value.items():
            found[_rewritten(k, select_fn, fn, known)] = _rewritten(v, select_fn, fn, known)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        found = type(value)(*(_rewritten(v, select_fn, fn, known) for v in value))
    elif isinstance(value, (list, tuple, set)):
        found = type(value)(_rewritten(v, select_fn, fn, known) for v in value)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.Tensor)):
        found = value
        known[id(value)] = value, value
        for name, v in list(vars(value).items()):
            changed = _rewritten(v, select_fn, fn, known)
            if changed is not v:
                vars(value)[name] = changed
    else:
        found = value
    known[id(value)] = value, found
    return found


class ToXlaTensorArena:
    """Exchanges all tensors that are selected, in one call of a function of their list."""

    def __init__(self, convert_fn, select_fn):
        self._convert, self._select = convert_fn, select_fn

    def transform(self, inputs):
        found = []
        for_each_instance(inputs, self._select, found.append)
        made = dict(zip(map(id, found), self._convert(found))) if found else {}
        return for_each_instance_rewrite(inputs, self._select, lambda v: made[id(v)])


def check_view_sharing(obj):
    """Raises if two tensors inside are views of one memory: saved apart, they would not be afterwards."""
    seen = {}

    def check(t):
        key = t.untyped_storage()._cdata
        if key in seen and seen[key] is not t:
            one, two = (f"{v.dtype}{list(v.shape)}" for v in (t, seen[key]))
            raise RuntimeError(f"check_view_sharing: found {one} and {two} that share a view, expected tensors with memory of their own")
        seen[key] = t

    for_each_instance(obj, lambda v: type(v) is torch.Tensor, check)


def shape(inputs):
    """The sizes of nested lists."""
    out = []
    while isinstance(inputs, (list, tuple)):
        out.append(len(inputs))
        inputs = inputs[0]
    return out


def flatten_nested_tuple(inputs):
    return tuple(v for i in inputs for v in flatten_nested_tuple(i)) if isinstance(inputs, tuple) else (inputs,)


def list_copy_append(ilist, item):
    return [*ilist, item]


def null_print(*args, **kwargs):
    pass


def eprint(*args, **kwargs):
    print(*args, file=sys.stderr, **kwargs)


def get_print_fn(debug=None):
    return eprint if (check_env_flag("DEBUG") if debug is None else debug) else null_print


def timed(fn, msg="", printfn=eprint):
    began = time.time()
    found = fn()
    printfn(f"{msg}{time.time() - began:.3f}sec")
    return found


class TimedScope:
    def __init__(self, msg="", printfn=eprint):
        self._msg, self._print = msg, printfn

    def __enter__(self):
        self._began = time.time()
        return self

    def __exit__(self, *error):
        self._print(f"{self._msg}{time.time() - self._began:.3f}sec")


class TmpFolder:
    def __init__(self):
        self.name = tempfile.mkdtemp()
        self.cleaner = Cleaner(lambda: shutil.rmtree(self.name, ignore_errors=True))


class Cleaner:
    def __init__(self, func):
        self.func = func

    def __del__(self):
        self.func()


class LazyProperty:
    def __init__(self, gen_fn):
        self._gen_fn = gen_fn

    @property
    def value(self):
        if self._gen_fn is not None:
            self._value, self._gen_fn = self._gen_fn(), None
        return self._value


def parallel_work(num_workers, fn, *args):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(num_workers) as pool:
        return list(pool.map(fn, *args))


class SampleGenerator:
    """The same batch so many times: a loader without data."""

    def __init__(self, data, sample_count):
        self._data, self._count, self._lock, self._sent = data, sample_count, threading.Lock(), 0

    def __iter__(self):
        return SampleGenerator(self._data, self._count)

    def __len__(self):
        return self._count

    def __next__(self):
        with self._lock:
            if self._sent == self._count:
                raise StopIteration
            self._sent += 1
        return self._data

    next = __next__


class FnDataGenerator(SampleGenerator):
    """(data of a batch and what fn makes of it), so many times."""

    def __init__(self, fn, batch_size, gen_tensor, dims=None, count=1):
        super().__init__(None, count)
        self._args = fn, batch_size, gen_tensor, dims or [], count

    def __iter__(self):
        return FnDataGenerator(*self._args)

    def __next__(self):
        super().__next__()
        fn, batch, gen, dims, _ = self._args
        data = gen(batch, *dims)
        return data, fn(data)


class DataWrapper:
    """What a loader may give instead of a tensor."""

    def get_tensors(self):
        """The tensors to be moved."""
        return []

    def from_tensors(self, tensors):
        """Itself with these."""
        return self
