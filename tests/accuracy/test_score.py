"""The arithmetic of trine.accuracy: what is left out together, when a factor is one, whose band is borrowed."""

import math

import pytest

from trine.accuracy import rows, score
from trine.accuracy.predict import Prediction, Term
from trine.estimate import fit


def point(number, kind="encoder", group="llama", instance="trn1.32xlarge", ratio=1.0, ours=10.0, **more):
    case = rows.Case(f"case {number}", kind, group, instance, {"config": {}}, {}, ours * ratio, 1)
    return score.Point(case, Prediction((Term(kind, 1, ours, 0.0, **more),), roofline_ms=ours / 2))


def test_a_factor_needs_eight_measurements():
    few = [point(i, ratio=2.0) for i in range(7)]
    assert fit.fitted(few)["factors"] == {}
    assert fit.fitted([*few, point(8, ratio=2.0)])["factors"]["encoder"] == pytest.approx(2.0)


def test_a_group_is_left_out_whole():
    """Nine of one family that are slow say nothing of it once it is left out: each is off by all of it."""
    slow = [point(i, group="slow", ratio=3.0) for i in range(9)]
    usual = [point(100 + i, group=f"usual {i}", instance="inf2.48xlarge") for i in range(9)]
    errors = score.left_out(slow + usual)
    assert errors["case 0"] == pytest.approx(math.log(1 / 3))


def test_an_instance_is_left_out_whole():
    here = [point(i, group=f"a {i}", instance="inf2.48xlarge", ratio=2.0) for i in range(10)]
    there = [point(100 + i, group=f"b {i}") for i in range(9)]
    errors = score.left_out(here + there, score.instance_of)
    assert errors["case 3"] == pytest.approx(math.log(1 / 2))


def test_engines_one_after_the_other():
    term = Term("encoder", 2, 10.0, 1.0, serial=15.0)
    assert fit.predicted((term,), {"factors": {}, "host": {}}) == pytest.approx(2 * (15 + 1))
    assert fit.device(10.0, 15.0, 8.0, 0.5) == pytest.approx(15 + 4) and fit.device(20.0, 5.0, 18.0, 0.5) == pytest.approx(20 + 2.5)
    assert fit.predicted((Term("encoder", 1, 10.0, 1.0, serial=5.0),), {"factors": {"encoder": 2.0}, "host": {}}) == pytest.approx(21)


def test_nothing_is_fitted_on_training():
    found = fit.fitted([point(i, kind="training", group=f"g {i}", ratio=2.0, serial=8.0, dma=4.0) for i in range(9)])
    assert not found["factors"] and not found["waiting"] and not found["host"]


def test_what_waits_is_fitted_in_place_of_a_factor():
    points = [point(i, kind="short prompts", group=f"g {i}", ratio=1.2, serial=8.0, dma=4.0) for i in range(8)]
    found = fit.fitted(points)
    assert found["waiting"]["prompts"] == pytest.approx(0.5) and found["factors"] == {}


V2, V3 = "NeuronCore-v2", "NeuronCore-v3"


def test_a_band_is_its_own_or_borrowed_and_says_so():
    own = [("decode", V2, f"g{i}", 0.01 * i) for i in range(10)]
    wide = [("encoder", V2, f"h{i}", 0.5) for i in range(10)]
    band = score.band("decode", V2, own + wide)
    assert (band.rows, band.wider) == (10, "") and band.width == pytest.approx(0.09)
    few = score.band("vision", V2, own + wide)
    assert few.wider == "all models" and few.rows == 20 and few.width == pytest.approx(0.5)


def test_a_band_is_wider_on_a_chip_nobody_measured():
    seen = [("decode", core, f"g{i}", e) for core, e in ((V2, 0.0), (V3, 0.2)) for i in range(5)]
    assert score.transfer(seen) == pytest.approx(0.2)
    away = score.band("decode", "NeuronCore-v4", seen)
    assert away.wider == "decode on all chips" and away.width == pytest.approx(0.2 + 0.2) and away.away > 0


def test_what_a_number_was_read_off_is_in_no_error():
    case = rows.Case("x", "decode", "g", "trn1.32xlarge", {}, {}, 1.0, 1, role="input")
    assert score.points([case], {"x": Prediction((Term("decode", 1, 2.0, 0.0),))}) == []
