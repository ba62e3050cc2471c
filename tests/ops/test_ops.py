"""The table of ops and the tables of cases hold the same names."""

from pathlib import Path

from trine import _core

# Ops whose table is still to be written. The list only shrinks: a name leaves it with its table.
WITHOUT = set(
    """
all_gather all_reduce all_to_all approx_top_k batch_norm_grad batch_norm_inference batch_norm_training cholesky
collective_broadcast collective_permute convolution custom_call dot dot_general eigh fft gather
householder_product lu partition_id qr ragged_all_to_all reduce reduce_scatter reduce_window replica_id rng
rng_bit_generator scatter select_and_scatter sort top_k triangular_solve
""".split()
)


def test_every_op_has_cases_and_every_table_an_op():
    tables = {file.stem for file in Path(__file__).parent.glob("*.test")}
    assert set(_core.op_names()) - tables == WITHOUT
    assert tables - set(_core.op_names()) == set()
