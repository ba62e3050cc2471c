"""One kernel for each kind of illegal use: the right rule, at the right line, in words that say what to do.

Every case is a kernel with one line marked `# <--`; the table above it says on which chip it is traced or run, which
code it gets and what the message must say.
"""

import inspect

import numpy as np
import pytest

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl
from trine.nki import NkiError
from trine.nki.old import language as old_language

CASES = {}


def case(code, says, chip="trn2", grid=(), args=1):
    def keep(fn):
        CASES[fn.__name__] = (fn, code, says, chip, grid, args)
        return fn

    return keep


def tile(shape=(128, 512), dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def filled(shape=(128, 512), dtype=nl.float32, buffer=nl.sbuf):
    return nl.zeros(shape, dtype=dtype, buffer=buffer)


# --- tiles and memory ---


@case("NKI014", "at most 128 (nl.tile_size.pmax)")
def tile_too_tall(a):
    nl.ndarray((256, 512), dtype=nl.bfloat16, buffer=nl.sbuf)  # <--


@case("NKI019", "bytes per partition", chip="trn1")
def tile_too_long_for_sbuf(a):
    nl.ndarray((128, 60000), dtype=nl.float32, buffer=nl.sbuf)  # <--


@case("NKI019", "at most 16,384 in PSUM")
def tile_too_long_for_psum(a):
    nl.ndarray((128, 4097), dtype=nl.float32, buffer=nl.psum)  # <--


@case("NKI030", "bytes per partition")
def more_live_tiles_than_sbuf_holds(a):
    tiles = []
    for _ in range(2):
        t = nl.ndarray((128, 30000), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(t, 0)
        tiles.append(t)
    nisa.tensor_tensor(tiles[0], tiles[0], tiles[1], nl.add)


@case("NKI023", "address")
def address_outside_sbuf(a):
    nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf, address=(0, 229000))  # <--


@case("NKI016", "nl.sbuf, nl.psum")
def unknown_buffer(a):
    nl.ndarray((128, 512), dtype=nl.float32, buffer="l2")  # <--


@case("NKI017", "float64")
def unknown_dtype(a):
    nl.ndarray((128, 512), dtype="float64", buffer=nl.sbuf)  # <--


@case("NKI003", "positive whole numbers")
def shape_with_zero(a):
    nl.ndarray((128, 0), dtype=nl.float32)  # <--


# --- indexing ---


@case("NKI010", "inside 0:512")
def slice_past_the_end(a):
    t = tile()
    nisa.memset(t[:, 500:600], 0)  # <--


@case("NKI010", "[0:0]")
def empty_view_used(a):
    nisa.memset(tile()[:, nl.ds(0, 0)], 0)  # <--


@case("NKI010", "a pattern inside the tensor")
def pattern_past_the_end(a):
    nisa.dma_copy(tile((128, 600)), a.ap([[512, 128], [1, 600]]))  # <--


@case("NKI028", "register 65")
def more_registers_than_a_sequencer_has(a):
    held = [nisa.register_alloc(k) for k in range(64)]
    held.append(nisa.register_alloc(64))  # <--


@case("NKI010", "at most 2")
def too_many_indices(a):
    a[0, 0, 0]  # <--


@case("NKI012", "partition dimension")
def partition_moved_by_a_view(a):
    tile().permute((1, 0))  # <--


@case("NKI011", "neighbouring partitions")
def every_second_partition(a):
    nisa.memset(tile()[0:128:2, :], 0)  # <--


@case("NKI021", "at most 4 per instruction")
def five_free_dimensions(a):
    t = tile((128, 3, 3, 3, 3, 3, 2))
    nisa.memset(t[:, 0:2, 0:2, 0:2, 0:2, 0:2, 0:1], 0)  # <--


@case("NKI013", "register's value used in Python")
def branch_on_a_register(a):
    r = nisa.register_alloc(3)
    if r > 2:  # <--
        pass


# --- operands in the wrong memory ---


@case("NKI016", "a tile in PSUM")
def matmul_into_sbuf(a):
    x = nl.load(a)
    nisa.nc_matmul(tile((128, 512)), stationary=x[:, :128], moving=x)  # <--


@case("NKI016", "nc_matmul")
def matmul_from_psum(a):
    x, p = nl.load(a), filled((128, 128), buffer=nl.psum)
    nisa.nc_matmul(tile((128, 512), buffer=nl.psum), stationary=p, moving=x)  # <--


@case("NKI016", "is in HBM")
def vector_reads_hbm(a):
    nisa.tensor_copy(tile(), a)  # <--


@case("NKI016", "PSUM")
def dma_reads_psum(a):
    p = filled((128, 512), buffer=nl.psum)
    nisa.dma_copy(nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm), p)  # <--


@case("NKI016", "gpsimd")
def gpsimd_reads_psum(a):
    p = filled((128, 512), buffer=nl.psum)
    nisa.tensor_tensor(tile(), p, filled(), nl.add, engine=nisa.engine.gpsimd)  # <--


@case("NKI016", "both lie in PSUM")
def two_psum_inputs(a):
    p, q = filled((128, 512), buffer=nl.psum), filled((128, 512), buffer=nl.psum)
    nisa.tensor_tensor(tile(), p, q, nl.add)  # <--


@case("NKI016", "SBUF tile")
def store_from_psum(a):
    p = filled((128, 512), buffer=nl.psum)
    nl.store(nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm), p)  # <--


@case("NKI005", "shared_hbm")
def result_in_sbuf(a):
    t = nl.ndarray((128, 512), dtype=nl.float32)  # <--
    nisa.memset(t, 0)
    return t


@case("NKI005", "shared_hbm")
def result_in_private_hbm(a):
    t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.hbm)  # <--
    nl.store(t, nl.load(a))
    return t


# --- shapes ---


@case("NKI015", "data1 has 512")
def elementwise_of_different_shapes(a):
    x = nl.load(a)
    nisa.tensor_tensor(tile((128, 256)), x, x[:, :256], nl.add)  # <--


@case("NKI015", "same K")
def matmul_contraction_differs(a):
    x = nl.load(a)
    nisa.nc_matmul(tile((128, 512), buffer=nl.psum), stationary=x[:64, :128], moving=x)  # <--


@case("NKI019", "at most 128 fit")
def matmul_stationary_too_wide(a):
    x = nl.load(a)
    nisa.nc_matmul(tile((128, 512), buffer=nl.psum), stationary=x[:, :256], moving=x)  # <--


@case("NKI024", "inside one bank")
def matmul_moving_too_wide(a):
    x = filled((128, 1024))
    nisa.nc_matmul(tile((128, 1024), buffer=nl.psum), stationary=x[:, :128], moving=x)  # <--


@case("NKI015", "each needs its counterpart")
def dma_of_different_sizes(a):
    nisa.dma_copy(tile((128, 256)), a)  # <--


@case("NKI015", "last free dimensions")
def reduce_over_partitions(a):
    nisa.tensor_reduce(tile((1, 512)), nl.add, nl.load(a), axis=0)  # <--


@case("NKI015", "elements per partition")
def reduce_into_the_wrong_size(a):
    nisa.tensor_reduce(tile((128, 4)), nl.add, nl.load(a), axis=1)  # <--


@case("NKI019", "512")
def bn_stats_too_long(a):
    nisa.bn_stats(tile((128, 6)), filled((128, 600)))  # <--


@case("NKI015", "elements per partition")
def max8_of_too_few(a):
    nisa.max8(tile((128, 8)), nl.load(a)[:, 0:4])  # <--


@case("NKI020", "start at 0, 32, 64 or 96")
def odd_start_partition(a):
    nisa.memset(tile()[16:48, :], 0)  # <--


# --- dtypes and operators ---


@case("NKI017", "pair only with each other")
def matmul_mixes_f32_and_bf16(a):
    x, y = nl.load(a), nl.load(a, dtype=nl.bfloat16)
    nisa.nc_matmul(tile((128, 512), buffer=nl.psum), stationary=y[:, :128], moving=x)  # <--


@case("NKI017", "multiplies float32", chip="trn1")
def matmul_of_integers(a):
    x = nl.zeros((128, 512), nl.int32)
    nisa.nc_matmul(tile((128, 512), buffer=nl.psum), stationary=x[:, :128], moving=x)  # <--


@case("NKI017", "float32")
def bf16_result_on_trn2(a):
    x = nl.load(a, dtype=nl.bfloat16)
    nisa.nc_matmul(tile((128, 512), nl.bfloat16, nl.psum), stationary=x[:, :128], moving=x)  # <--


@case("NKI017", "bitwise")
def bitwise_on_floats(a):
    x = nl.load(a)
    nisa.tensor_tensor(tile(), x, x, nl.bitwise_and)  # <--


@case("NKI017", "uint8")
def predicate_of_floats(a):
    x = nl.load(a)
    nisa.tensor_copy_predicated(filled(), x, x)  # <--


@case("NKI017", "same")
def shuffle_that_casts(a):
    nisa.nc_stream_shuffle(tile(dtype=nl.bfloat16), nl.load(a), list(range(32)))  # <--


@case("NKI018", "activation")
def alu_operator_that_is_a_function(a):
    x = nl.load(a)
    nisa.tensor_tensor(tile(), x, x, nl.exp)  # <--


@case("NKI018", "nl.exp")
def activation_that_is_an_operator(a):
    nisa.activation(tile(), op=nl.add, data=nl.load(a))  # <--


@case("NKI022", "engine.vector")
def memset_on_the_tensor_engine(a):
    nisa.memset(tile(), 0, engine=nisa.engine.tensor)  # <--


# --- generations ---


@case("NKI004", "trn1", chip="trn1")
def exponential_before_v4(a):
    nisa.exponential(tile(), nl.load(a))  # <--


@case("NKI004", "trn2")
def mx_matmul_before_v4(a):
    x = nl.load(a)
    nisa.nc_matmul_mx(tile((128, 512), buffer=nl.psum), x, x, x, x)  # <--


@case("NKI004", "trn1", chip="trn1")
def scalar_bias_on_v2(a):
    nisa.activation(tile(), op=nl.exp, data=nl.load(a), bias=1.0)  # <--


@case("NKI004", "trn1", chip="trn1")
def hwdge_on_v2(a):
    nisa.dma_copy(tile(), a, dge_mode=nisa.dge_mode.hwdge)  # <--


@case("NKI004", "dma_qos")
def dma_priority_before_v4(a):
    nisa.dma_copy(tile(), a, priority=1)  # <--


@case("NKI007", "one core", chip="trn1", grid=(2,))
def two_cores_on_v2(a):
    pass


# --- DMA, loops, names, cores ---


@case("NKI025", "axes")
def transpose_with_other_axes(a):
    nisa.dma_transpose(tile((512, 128)[::-1]), a, axes=(0, 1))  # <--


@case("NKI025", "one dtype")
def hwdge_that_casts(a):
    nisa.dma_copy(tile(dtype=nl.bfloat16), a, dge_mode=nisa.dge_mode.hwdge)  # <--


@case("NKI028", "no_reorder")
def device_loop_in_no_reorder(a):
    with nl.no_reorder():
        nl.fori_loop(0, 4, lambda i: None)  # <--


@case("NKI028", "loop's own index")
def write_to_a_loop_index(a):
    nl.fori_loop(0, 4, lambda i: nisa.register_move(i, 1))  # <--


@case("NKI001", "nisa.tensor_tensor_tensor")
def unknown_isa_function(a):
    nisa.tensor_tensor_tensor(a)  # <--


@case("NKI001", "nl.fft")
def unknown_language_function(a):
    nl.fft(a)  # <--


@case("NKI003", "source")
def unknown_argument(a):
    nisa.tensor_copy(dst=tile(), source=nl.load(a))  # <--


@case("NKI003", "missing")
def missing_argument(a):
    nisa.tensor_tensor(tile(), nl.load(a), op=nl.add)  # <--


@case("NKI001", "NkiTensor.transpose")
def unknown_method(a):
    nl.load(a).transpose()  # <--


@case("NKI018", "nl.add")
def operator_on_tiles(a):
    nl.load(a) + nl.load(a)  # <--


@case("NKI002", "load of neuronxcc.nki in a kernel of nki")
def the_other_dialect(a):
    old_language.load(a)  # <--


@case("NKI018", "nl.exp")
def numpy_function_on_a_tile(a):
    np.exp(nl.load(a))  # <--


@case("NKI018", "operator")
def equality_of_a_tile(a):
    if nl.load(a) == 0:  # <--
        pass


@case("NKI013", "number")
def tile_as_a_number(a):
    float(nl.load(a))  # <--


@case("NKI003", "max8")
def argument_of_another_kind(a):
    nisa.max8(nl.exp, nl.load(a))  # <--


@case("NKI003", "cannot be interpreted as an integer")
def argument_that_numpy_refuses(a):
    nl.shared_identity_matrix(nl.load(a))  # <--


@case("NKI007", "kernel[2]")
def barrier_on_one_core(a):
    nisa.core_barrier(nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm), (0, 1))  # <--


@case("NKI026", "shared", grid=(2,))
def shared_tensors_that_differ(a):
    nl.ndarray((128, 512 + nl.program_id(0)), nl.float32, buffer=nl.shared_hbm)  # <--


# --- seen only when it runs ---


@case("NKI040", "nobody wrote")
def read_before_write(a):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    t = tile()
    nl.store(out, t)  # <--
    return out


@case("NKI040", "what was there reaches out")
def a_reduction_over_what_nobody_wrote(a):
    out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
    t = tile()
    nisa.dma_copy(t[:, 0:500], a[:, 0:500])
    nl.store(out, nl.max(t, axis=1))  # <--
    return out


@case("NKI042", "accumulat", chip="trn1")
def accumulate_on_what_vector_wrote(a):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    x, p = nl.load(a), tile((128, 512), buffer=nl.psum)
    nisa.memset(p, 5.0)
    nisa.nc_matmul(p, stationary=x[:, :128], moving=x)  # <--
    nl.store(out, nl.copy(p))
    return out


@case("NKI042", "accumulat")
def accumulate_on_nothing(a):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    x, p = nl.load(a), tile((128, 512), buffer=nl.psum)
    nisa.nc_matmul(p, stationary=x[:, :128], moving=x, accumulate=True)  # <--
    nl.store(out, nl.copy(p))
    return out


@case("NKI041", "row")
def gather_outside_its_tensor(a):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    index, t = nl.full((128, 1), 1000, nl.int32), tile()
    nisa.dma_copy(t, a.ap([[512, 128], [1, 512]], vector_offset=index))  # <--
    nl.store(out, t)
    return out


@case("NKI048", "512 of 65536 elements are zero")
def assert_that_does_not_hold(a):
    x = nl.load(a)
    assert nl.equal(x, nl.copy(x))
    nisa.memset(x[:, 0:4], 5.0)
    assert nl.equal(x, nl.load(a))  # <--


@case("NKI046", "race", grid=(2,))
def two_cores_write_different_bytes_to_one_place(a):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), float(nl.program_id(0))))  # <--
    return out


@case("NKI004", "a transpose of rows from an index tile", chip="trn1")
def gathered_rows_transposed_before_v3(a):
    index, t = nl.full((128, 1), 1, nl.uint32), tile((128, 128), nl.bfloat16)
    rows = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.private_hbm)
    nisa.dma_transpose(t, rows.ap([[128, 128], [1, 128]], vector_offset=index))  # <--


@case("NKI027", "with_schedule")
def unknown_name_in_a_schedule(a):
    pass


@pytest.mark.parametrize("name", CASES)
def test_illegal(name, monkeypatch):
    fn, code, says, chip, grid, _ = CASES[name]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    kernel = nki.jit(fn)
    if grid:
        kernel = kernel[grid]
    if "schedule" in name:
        kernel = kernel.with_schedule([("late", "early")])
    with pytest.raises(NkiError) as caught:
        kernel(np.ones((128, 512), np.float32))
    e = caught.value
    assert e.code == code, str(e)
    assert says in str(e), str(e)
    lines, first = inspect.getsourcelines(fn)
    marked = [first + i for i, text in enumerate(lines) if "# <--" in text]
    if marked:
        assert e.line == marked[0], f"{e}\nexpected line {marked[0]}"
        assert e.file == __file__


def test_there_are_enough():
    assert len(CASES) >= 40
