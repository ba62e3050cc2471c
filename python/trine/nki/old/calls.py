"""What the functional dialect's calls share: fresh results, masks, operands brought into shape."""

from trine.nki import create, elementwise
from trine.nki.old.blocks import Blocks
from trine.nki.old.record import cut
from trine.nki.old.tile import Tile, masking
from trine.nki.tensor import PSUM, SBUF, NkiTensor, as_dtype
from trine.nki.trace import current, error

F32 = elementwise.F32


def need(x, what):
    """x, which must be a tile."""
    if isinstance(x, Blocks):
        raise error("NKI003", f"{what}={x!r}", "a tile: index the block dimensions first")
    if not isinstance(x, NkiTensor):
        raise error("NKI003", f"{what}={x!r}", "a tile")
    return Tile.of(x)


def new(shape, dtype, otherwise, buffer=SBUF):
    """A fresh result tile; dtype None is what the call has by default."""
    made = Tile.of(create.ndarray(shape, as_dtype(dtype) if dtype is not None else otherwise, buffer))
    recorder = current().dialect
    if dtype is not None:
        recorder.cast.add(made.storage)
    if buffer is PSUM:
        recorder.left_in_psum.add(made.storage)
    return made


def multiplied(x, what):
    """An operand of a matmul. A result that a call left in PSUM is copied; a tile that the kernel put there is not."""
    x = need(x, what)
    return Tile.of(elementwise.to_sbuf(x)) if x.storage in current().dialect.left_in_psum else x


def run(f, dst, mask, shape=None, **operands):
    """f(dst=…, operands…) on what the mask leaves of tiles of this shape (dst's); returns all of dst."""
    with masking(mask, dst.shape if shape is None else shape) as something:
        if something:
            f(dst=dst, **operands)
        else:
            skip(dst)
    return dst


def skip(dst):
    """The result of a call that is not made."""
    current().dialect.skipped.add(dst.storage)
    return dst


def on_part(f, dst, mask, data, transposed=False, **operands):
    """As run, for calls whose other arguments follow from the part: f(dst, data, box, …). transposed: of dst the box is reversed."""
    recorder = current().dialect
    with masking(mask, data.shape) as something:
        region = recorder.region[0] if recorder.region is not None and mask is not None else None
        saved, recorder.region = recorder.region, None
        if something:
            box = recorder.part(data, region)
            if box is None:
                f(dst, data, [(0, n) for n in data.shape], **operands)
            else:
                out = box[::-1] if transposed else box
                f(cut(dst, out), cut(data, box), box, **operands)
                recorder.was_cut(dst, out)
        else:
            skip(dst)
        recorder.region = saved
    return dst


def fit(*tiles):
    """Tiles of one shape: what has 1 in a dimension is repeated there, partitions included."""
    shape = tuple(max(sizes) for sizes in zip(*(t.shape for t in tiles)))
    out = []
    for t in tiles:
        if t.shape[0] == 1 and shape[0] > 1:
            t = t.broadcast_to((shape[0],) + t.shape[1:])
        for d in range(1, t.ndim):
            if t.shape[d] == 1 and shape[d] > 1:
                t = t.broadcast(d, shape[d])
        out.append(t)
    return out


def column(operand, data):
    """A scalar operand as an engine takes it: a number, or one f32 value per partition."""
    if not isinstance(operand, NkiTensor):
        return operand
    if operand.shape[0] == 1 and data.shape[0] > 1:
        operand = Tile.of(operand).broadcast_to((data.shape[0],) + operand.shape[1:])
    return operand if operand.dtype is F32 else Tile.of(elementwise.copy(operand, F32))
