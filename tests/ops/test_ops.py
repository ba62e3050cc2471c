"""The table of ops and the tables of cases hold the same names."""

from pathlib import Path

from trine import _core


def test_every_op_has_cases_and_every_table_an_op():
    tables = {file.stem for file in Path(__file__).parent.glob("*.test")}
    assert tables == set(_core.op_names())
