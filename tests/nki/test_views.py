"""Views of NkiTensor: each must address the very elements that NumPy's view of the same storage addresses."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl
from trine.nki import dtypes
from trine.nki.errors import NkiError
from trine.nki.tensor import SBUF, SHARED_HBM, DynamicSlice, Storage, contiguous, merge_dims

F32 = dtypes.by_name["float32"]


def make(shape, buffer=SHARED_HBM, dtype=F32):
    return contiguous(Storage(0, buffer, dtype, tuple(shape), "t"))


def addresses(view):
    """Every element's place in the storage, as an array of the view's shape."""
    out = np.full(view.shape, view.offset)
    for d, stride in enumerate(view.strides):
        steps = stride * np.arange(view.shape[d])
        out = out + steps.reshape((-1,) + (1,) * (view.ndim - 1 - d))
    return out


def numbered(shape):
    return np.arange(prod(shape)).reshape(shape)


@st.composite
def chains(draw):
    """A shape and a list of view operations that are legal on it, with NumPy's result."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=4)))
    view, want = make(shape), numbered(shape)
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["slice", "select", "permute", "expand", "squeeze", "broadcast", "split", "merge"]))
        dim = draw(st.integers(0, view.ndim - 1))
        n = view.shape[dim]
        if kind == "slice":
            start = draw(st.integers(0, n - 1))
            stop, step = draw(st.integers(start + 1, n)), draw(st.integers(1, 3))
            key = (slice(None),) * dim + (slice(start, stop, step),)
            view, want = view[key], want[key]
        elif kind == "select" and view.ndim > 1:
            at = draw(st.integers(-n, n - 1))
            view, want = view.select(dim, at), np.take(want, at, dim)
        elif kind == "permute":
            order = draw(st.permutations(range(view.ndim)))
            view, want = view.permute(tuple(order)), want.transpose(order)
        elif kind == "expand":
            view, want = view.expand_dim(dim), np.expand_dims(want, dim)
        elif kind == "squeeze" and n == 1 and view.ndim > 1:
            view, want = view.squeeze_dim(dim), np.squeeze(want, dim)
        elif kind == "broadcast" and n == 1:
            to = want.shape[:dim] + (3,) + want.shape[dim + 1 :]
            view, want = view.broadcast(dim, 3), np.broadcast_to(want, to)
        elif kind == "split" and n % 2 == 0:
            to = want.shape[:dim] + (2, n // 2) + want.shape[dim + 1 :]
            view, want = view.reshape_dim(dim, (2, -1)), want.reshape(to)
        elif kind == "merge" and dim + 1 < view.ndim:
            to = want.shape[:dim] + (-1,) + want.shape[dim + 2 :]
            try:
                view, want = view.flatten_dims(dim, dim + 1), want.reshape(to)
            except NkiError:
                assert not view.is_contiguous()
    return view, want


@given(chains())
def test_any_chain_of_views_addresses_what_numpy_does(pair):
    view, want = pair
    assert view.shape == want.shape
    assert (addresses(view) == want).all()


@given(chains())
def test_merged_dims_visit_the_same_elements_in_order(pair):
    view, want = pair
    dims = merge_dims(view.shape, view.strides)
    places = np.full(1, view.offset)
    for stride, count in dims:
        places = (places[:, None] + stride * np.arange(count)).reshape(-1)
    assert (places == want.reshape(-1)).all()


def test_on_chip_views_keep_two_dimensions():
    t = make((128, 64, 32), SBUF)
    assert t[0].shape == (1, 64, 32)
    assert t[:, :, 0].shape == (128, 64)
    assert t[:, 0, 10].shape == (128, 1)
    assert t[0, 0, 10].shape == (1, 1)
    assert t[0, ..., :].shape == (1, 64, 32)
    assert t[:, ::2].shape == (128, 32, 32)
    assert t.strides == (2048, 32, 1)


def test_view_as_another_dtype_rescales_the_last_dimension():
    t = make((128, 64), SBUF)
    bytes_ = t[:, 8:16].view("uint8")
    assert (bytes_.shape, bytes_.strides, bytes_.offset) == ((128, 32), (256, 1), 32)
    back = bytes_.view("float32")
    assert (back.shape, back.strides, back.offset) == ((128, 8), (64, 1), 8)


def test_rearrange_splits_moves_and_merges():
    t = make((128, 24), SBUF)
    view = t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})
    want = numbered((128, 24)).reshape(128, 4, 6).transpose(0, 2, 1)
    assert (addresses(view) == want).all()
    again = view.rearrange(("b", "w", ("x", "y")), ("b", ("w",), "x", "y"), {"x": 2})
    assert again.shape == (128, 6, 2, 2)


def test_ap_replaces_shape_and_strides():
    t = make((128, 1024), SBUF)
    view = t.ap(pattern=[(1024, 128), (2, 512)])
    assert (view.shape, view.strides) == ((128, 512), (1024, 2))
    assert t[:, 4:8].ap([[1024, 64], [1, 2]]).offset == 4
    assert t.ap([[1024, 64], [1, 2]], offset=7).offset == 7


def test_ds_is_a_slice():
    t = make((8, 16))
    assert (addresses(t[DynamicSlice(2, 3), :]) == numbered((8, 16))[2:5]).all()


REFUSED = {
    "past the end": (lambda t: t[:, 0:65], "NKI010"),
    "empty": (lambda t: t[:, 5:5], "NKI010"),
    "too many indices": (lambda t: t[0, 0, 0], "NKI010"),
    "integer past the end": (lambda t: t[:, 64], "NKI010"),
    "partition moved": (lambda t: t.permute((1, 0)), "NKI012"),
    "partition repeated": (lambda t: t[0:1].broadcast(0, 4), "NKI012"),
    "partition reshaped": (lambda t: t.reshape((64, 128)), "NKI012"),
    "partition split": (lambda t: t.reshape_dim(0, (2, 64)), "NKI012"),
    "dimension of 64 repeated": (lambda t: t.broadcast(1, 4), "NKI015"),
    "dimension of 64 squeezed": (lambda t: t.squeeze_dim(1), "NKI015"),
    "wrong element count": (lambda t: t.reshape((128, 63)), "NKI015"),
    "strided reshape": (lambda t: t[:, ::2].expand_dim(1).broadcast(1, 2).reshape((128, 64)), "NKI011"),
    "bits of a strided row": (lambda t: t[:, ::2].view("uint8"), "NKI011"),
    "odd bytes": (lambda t: t.view("uint8")[:, 0:3].view("float32"), "NKI015"),
    "partition stride": (lambda t: t.ap([[1, 128], [1, 64]]), "NKI011"),
    "pattern outside": (lambda t: t.ap([[64, 128], [2, 64]]), "NKI010"),
    "vector offset on chip": (lambda t: t.ap([[64, 128], [1, 64]], vector_offset=t), "NKI025"),
    "names do not match": (lambda t: t.rearrange(("a", "b"), ("a", "c")), "NKI003"),
    "backwards": (lambda t: t[:, ::-1], "NKI011"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_views_that_no_access_pattern_expresses(case):
    f, code = REFUSED[case]
    with pytest.raises(NkiError) as e:
        view = f(make((128, 64), SBUF))
        raise view.fault  # what is outside or empty is refused when an instruction uses it
    assert e.value.code == code
    assert e.value.file == __file__


def test_a_view_is_checked_when_an_instruction_uses_it():
    @nki.jit
    def kernel(a):
        t = nl.load(a)
        empty, past, raw = t[:, nl.ds(0, 0)], t[:, 500:600], a.ap([[512, 128], [1, 600]])
        assert empty.shape == (128, 0) and empty.size == 0 and t[:, 512:512].shape == (128, 0)
        assert empty.reshape((128, 0, 4)).shape == (128, 0, 4)
        assert past.shape == (128, 100) and raw.shape == (128, 600)
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    a = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
    assert (kernel(a) == a).all()


def test_a_fault_stays_with_what_is_made_of_a_view():
    @nki.jit
    def kernel(a):
        nisa.memset(nl.load(a)[:, 500:600].reshape((128, 10, 10))[:, 0:2, :], 0)

    with pytest.raises(NkiError, match=r"NKI010[\s\S]*\[500:600\]"):
        kernel(np.zeros((128, 512), np.float32))
