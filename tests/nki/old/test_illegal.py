"""Each kind of misuse in the functional dialect: its code, and the line it happens on (marked `# here`)."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/compat"))

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
from neuronxcc.nki.language import par_dim  # noqa: E402
from trine.nki import NkiError  # noqa: E402

CASES = []


def illegal(code, says):
    def add(fn):
        CASES.append(pytest.param(code, says, fn, id=fn.__name__))
        return fn

    return add


@illegal("NKI010", "mask what is outside")
def outside_without_a_mask(a):
    i, j = nl.mgrid[0:128, 0:100]
    nl.load(a[i, j])  # here


@illegal("NKI010", "indices 64 to 191")
def outside_in_a_loop(a):
    i, j = nl.mgrid[0:128, 0:64]
    for k in nl.affine_range(2):
        nl.load(a[k * 64 + i, j])  # here


@illegal("NKI011", "slope")
def a_mask_that_is_no_box(a):
    i, j = nl.mgrid[0:128, 0:64]
    nl.load(a[i, j], mask=(i + j < 100))  # here


@illegal("NKI011", "&")
def masks_joined_by_or(a):
    i, j = nl.mgrid[0:128, 0:64]
    nl.load(a[i, j], mask=(i < 100) | (j < 3))  # here


@illegal("NKI013", "mask")
def a_mask_as_a_condition(a):
    i = nl.arange(128)[:, None]
    if i < 64:  # here
        nl.load(a)


@illegal("NKI003", "mask")
def a_mask_that_is_a_tile(a):
    x = nl.load(a)
    nl.exp(x, mask=x)  # here


@illegal("NKI011", "affine")
def an_index_that_is_not_affine(a):
    i, j = nl.mgrid[0:128, 0:64]
    nl.load(a[i, j % 3])  # here


@illegal("NKI012", "dimension 0")
def partitions_in_the_free_dimension(a):
    i, j = nl.mgrid[0:64, 0:128]
    x = nl.load(a)
    nl.exp(x[j, i])  # here


@illegal("NKI014", "128")
def a_tile_too_tall(a):
    nl.ndarray((256, 8), dtype=a.dtype)  # here


@illegal("NKI014", "128")
def a_load_too_tall(a):
    nl.load(a.reshape((256, 32)))  # here


@illegal("NKI015", "agree")
def indices_of_different_sizes(a):
    i, j = nl.arange(128)[:, None], nl.arange(64)[:, None]
    nl.load(a[i, j])  # here


@illegal("NKI015", "free axes")
def a_reduction_over_partitions(a):
    nl.sum(nl.load(a), axis=0)  # here


@illegal("NKI015", "")
def shapes_that_do_not_fit(a):
    x = nl.load(a)
    nl.add(x, x[:, 0:10])  # here


@illegal("NKI016", "HBM")
def a_load_from_the_chip(a):
    x = nl.load(a)
    nl.load(x)  # here


@illegal("NKI016", "HBM")
def a_store_to_the_chip(a):
    x = nl.load(a)
    nl.store(x, x)  # here


@illegal("NKI016", "")
def a_matmul_operand_in_psum(a):
    x = nl.load(a)
    y = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(x, y)  # here


@illegal("NKI003", "block")
def all_blocks_at_once(a):
    x = nl.zeros((2, par_dim(128), 64), dtype=a.dtype)
    nl.exp(x)  # here


@illegal("NKI011", "integer")
def a_block_by_an_index_expression(a):
    x = nl.ndarray((2, par_dim(128), 64), dtype=a.dtype)
    x[nl.arange(2)[:, None]] = nl.load(a)  # here


@illegal("NKI010", "block")
def a_block_that_is_not_there(a):
    x = nl.ndarray((2, par_dim(128), 64), dtype=a.dtype)
    x[2] = nl.load(a)  # here


@illegal("NKI001", "nl")
def a_function_that_is_not_there(a):
    nl.convolution(a)  # here


@illegal("NKI001", "recorded one after the other")
def a_reduction_over_the_grid(a):
    nl.all_reduce(nl.load(a), np.add, program_axes=[0])  # here


@illegal("NKI004", "")
def an_instruction_of_a_later_generation(a):
    x = nl.load(a)
    nisa.range_select(on_true_tile=x, comp_op0=np.less, comp_op1=np.less, bound0=x[:, 0], bound1=x[:, 1])  # here


@illegal("NKI040", "nobody wrote")
def a_tile_nobody_wrote(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype)
    y = nl.exp(x)  # here
    nl.store(out, y)
    return out


@illegal("NKI040", "nobody wrote")
def a_sum_over_what_a_mask_left_out(a):
    out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:128, 0:64]
    x = nl.load(a[i, j], mask=(j < 10))
    s = nl.sum(x, axis=1)  # here
    nl.store(out, s)
    return out


@illegal("NKI007", "axis")
def a_grid_that_was_not_launched(a):
    nl.program_id(1)  # here


@pytest.mark.parametrize("code, says, fn", CASES)
def test_illegal(code, says, fn, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    source, first = inspect.getsourcelines(fn)
    line = first + next(i for i, text in enumerate(source) if "# here" in text)
    with pytest.raises(NkiError) as e:
        nki.jit(fn)(np.ones((128, 64), np.float32))
    assert (e.value.code, e.value.line) == (code, line), str(e.value)
    assert Path(e.value.file).name == "test_illegal.py" and says in str(e.value)


def test_a_mode_that_is_not_there():
    with pytest.raises(NkiError, match="simulation"):
        nki.jit(lambda a: a, mode="fast")
