"""nki.compiler: what kernels say to Neuron's compiler. A kernel of this dialect runs as it is written, so only no_reorder
changes anything; the others are accepted."""

from trine.nki.language import no_reorder
from trine.nki.trace import missing


def _unchanged(kernel=None, **_):
    return (lambda k: k) if kernel is None else kernel


skip_middle_end_transformations = enable_stack_allocator = force_auto_alloc = _unchanged


def multi_buffer(factor=2):
    return None


def __getattr__(name):
    raise missing("nki.compiler", name, globals())
