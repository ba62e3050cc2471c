"""Two models of tests/torch/models.py; `make test-torch` runs all."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import models  # noqa: E402

from trine.torch import pieces  # noqa: E402


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_three_steps_of_training(name):
    torch._dynamo.reset()
    pieces.FALLBACKS.clear()
    assert models.compare(name) < models.TOLERANCE
    assert not pieces.FALLBACKS
