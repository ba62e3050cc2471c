"""One model of tests/torch/model_matrix.py; `make test-torch` runs all."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import model_matrix as models  # noqa: E402

from trine.torch import pieces  # noqa: E402


@pytest.mark.parametrize("mode", models.MODES)
def test_three_steps_of_training(mode):
    if mode != "compiled":
        pytest.importorskip("trine._torch")
    torch._dynamo.reset()
    pieces.FALLBACKS.clear()
    assert models.compare("llama", **models.MODES[mode]) < models.TOLERANCE
    assert not pieces.FALLBACKS
