"""nki.compiler: where tensors lie, said by the kernel, and directives that have no effect on a virtual chip."""

import contextlib

from trine.nki import language
from trine.nki.tensor import PSUM, SBUF
from trine.nki.trace import missing

BANK = 2048  # bytes of a PSUM bank per partition


class Allocated:
    """A buffer whose tiles are placed by a function of the block index, the partitions and the bytes."""

    def __init__(self, region, function):
        self.region, self.function = region, function

    def address_of(self, index, shape, dtype):
        size = dtype.bits // 8
        for n in shape[1:]:
            size *= n
        found = tuple(int(v) for v in self.function(idx=index, pdim_size=shape[0], fdim_size=size))
        if self.region is PSUM:
            bank, partition, byte = found
            return partition, bank * BANK + byte
        return found


def _modulo(base, tiles, scale):
    def at(index):
        sizes = tuple(tiles) or (1,) * len(index)
        linear = 0
        for i, n in zip(index, sizes):
            linear = linear * n + i % n
        return linear * scale + base

    return at


class sbuf:
    """SBUF allocation: alloc, mod_alloc, auto_alloc."""

    region = SBUF

    @staticmethod
    def alloc(func):
        return Allocated(SBUF, func)

    @staticmethod
    def mod_alloc(*, base_addr, base_partition=0, num_par_tiles=(), num_free_tiles=()):
        return Allocated(SBUF, lambda idx, pdim_size, fdim_size: (
            _modulo(base_partition, num_par_tiles, pdim_size)(idx), _modulo(base_addr, num_free_tiles, fdim_size)(idx)))  # fmt: skip

    @staticmethod
    def auto_alloc():
        return SBUF


class psum:
    """PSUM allocation: alloc, mod_alloc, auto_alloc."""

    region = PSUM

    @staticmethod
    def alloc(func):
        return Allocated(PSUM, func)

    @staticmethod
    def mod_alloc(*, base_bank, base_addr=0, base_partition=0, num_bank_tiles=(), num_par_tiles=(), num_free_tiles=()):
        return Allocated(PSUM, lambda idx, pdim_size, fdim_size: (
            _modulo(base_bank, num_bank_tiles, 1)(idx), _modulo(base_partition, num_par_tiles, pdim_size)(idx),
            _modulo(base_addr, num_free_tiles, fdim_size)(idx)))  # fmt: skip

    @staticmethod
    def auto_alloc():
        return PSUM


class no_reorder:
    """As a directive of a range, or around a block: instructions keep their order."""

    def __enter__(self):
        self.block = language.no_reorder()
        return self.block.__enter__()

    def __exit__(self, *args):
        return self.block.__exit__(*args)


def multi_buffer(factor=2):
    return None


@contextlib.contextmanager
def allocation_scope():
    yield


def _unchanged(func=None, **_):
    return (lambda f: f) if func is None else func


enable_stack_allocator = _unchanged


def skip_middle_end_transformations(func=None):
    """The kernel as it is written: nothing merged, no loops joined."""
    if func is None:
        return skip_middle_end_transformations
    if hasattr(func, "as_is"):
        return func.as_is()
    func.skip_middle_end = True
    return func


def force_auto_alloc(func=None):
    """The kernel with every tensor placed by the scheduler, whatever it says itself."""
    if func is None:
        return force_auto_alloc
    if hasattr(func, "placed_by_scheduler"):
        return func.placed_by_scheduler()
    func.force_auto_alloc = True
    return func


def __getattr__(name):
    raise missing("neuronxcc.nki.compiler", name, globals())
