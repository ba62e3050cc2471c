"""accumulate=None of nc_matmul: the first write to a PSUM location overwrites, later ones add.

Decided while tracing where regions are equal or apart; a region that overlaps an earlier one only in part is left to
the machine (`first`), which knows for every element whether a group is open.
"""


def _box(view):
    """(first partition, last, lowest element, highest) of a view, ends inside."""
    partition, offset = divmod(view.offset, view.storage.row * view.storage.dtype.bits // view.dtype.bits)
    reach = sum(s * (n - 1) for s, n in zip(view.strides[1:], view.shape[1:]))
    return partition, partition + view.shape[0] - 1, offset * view.dtype.bits, (offset + reach + 1) * view.dtype.bits - 1


def _apart(a, b):
    return a[1] < b[0] or b[1] < a[0] or a[3] < b[2] or b[3] < a[2]


def mode(view, accumulate, loops):
    """overwrite, add or first for a matmul into view; remembers that it was written."""
    storage = view.storage
    if storage.written is None:
        storage.written = {}
    key = (view.offset, view.shape, view.strides)
    known = key in storage.written
    if accumulate is None:
        if loops > storage.loops:
            chosen = "first"  # an earlier iteration may have written it
        elif known:
            chosen = "add"
        elif all(_apart(_box(view), box) for box in storage.written.values()):
            chosen = "overwrite"
        else:
            chosen = "first"
    else:
        chosen = "add" if accumulate else "overwrite"
    if not known:
        storage.written[key] = _box(view)
    return chosen


def note_zeros(view):
    """A memset of zeros: to overwrite it and to add to it are the same, and only the first is defined before v4. So the
    next matmul inside it overwrites."""
    box = _box(view)
    inside = [key for key, b in (view.storage.written or {}).items()
              if box[0] <= b[0] and b[1] <= box[1] and box[2] <= b[2] and b[3] <= box[3]]  # fmt: skip
    for key in inside:
        del view.storage.written[key]


def note_write(view):
    """Another instruction wrote this PSUM view: later matmuls with accumulate=None add to it."""
    storage = view.storage
    if storage.written is None:
        storage.written = {}
    storage.written.setdefault((view.offset, view.shape, view.strides), _box(view))
