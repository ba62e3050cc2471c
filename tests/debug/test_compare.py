"""`trine debug compare` and `save`, as a user calls them, and trine.debug.compare on JAX functions and torch modules."""

import copy
import json
import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from trine import debug
from trine.debug import measures

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import nets  # noqa: E402


def trine_debug(trine, *words, cwd=HERE):
    return subprocess.run([str(trine), "debug", *map(str, words)], capture_output=True, text=True, cwd=cwd, env=dict(os.environ))


def test_command_against_another_factory(trine, tmp_path):
    done = trine_debug(trine, "compare", "nets:bad", "--baseline", "nets:good", "--json", "--svg", tmp_path / "e.svg")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["version"] == 1 and report["outcome"] == "defect" and not report["passed"]
    assert report["first"]["op"] == "native_layer_norm" and report["first"]["scope"] == "norm" and report["first"]["line"].startswith("nets.py:")
    assert "0.001 here, 1e-05 in the baseline" in report["first"]["text"]
    assert [r["layer"] for r in report["layers"] if r["is_first"]] == ["norm"]
    assert xml.etree.ElementTree.parse(tmp_path / "e.svg").getroot().tag.endswith("svg")


def test_command_against_saved_tensors(trine, tmp_path):
    file = tmp_path / "gpu.safetensors"
    assert trine_debug(trine, "save", "nets:good", "--output", file).returncode == 0
    same = trine_debug(trine, "compare", "nets:good", "--baseline", file)
    assert same.returncode == 0 and "within tolerance" in same.stdout, same.stdout + same.stderr
    other = trine_debug(trine, "compare", "nets:bad", "--baseline", file, "--json")
    assert other.returncode == 1 and json.loads(other.stdout)["first"]["scope"] == "norm", other.stdout


@pytest.mark.parametrize("words, code, says", [
    (["compare"], 2, "MODULE:FACTORY or --config"),
    (["compare", "nets:nix"], 2, "nix"),
    (["compare", "nets"], 2, "expected MODULE:FACTORY"),
    (["compare", "--config", "nonesuch"], 3, "no such file"),
    (["look"], 2, "expected  compare"),
    (["save", "nets:good"], 2, "--output"),
])  # fmt: skip
def test_wrong_words(trine, words, code, says):
    done = trine_debug(trine, *words)
    assert done.returncode == code and says in done.stderr, done.stderr


def test_training_step_by_step():
    from trine.debug.training import train_compare

    (model, x), (other, _) = nets.good(), nets.bad()
    same = train_compare(model, (x,), 3)
    assert same.passed and [s["step"] for s in same.steps] == [0, 1, 2] and same.outcome == "rounding"
    assert same.steps[2]["loss"] < same.steps[0]["loss"]
    parted = train_compare(other, (x,), 2, baseline=model)
    assert not parted.passed and parted.op == "native_layer_norm" and not parted.steps[0]["passed"]


def network(params, x, scale=1.0):
    with jax.named_scope("layer 0"):
        h = jnp.tanh(x @ params["w"] * scale)
    with jax.named_scope("layer 1"):
        def step(c, row):
            return c + row, jnp.exp(-c * c)

        return jax.lax.scan(step, jnp.zeros_like(h[0]), h)[1]


def drawn():
    rng = np.random.default_rng(1)
    return {"w": rng.normal(size=(16, 16)).astype(np.float32)}, rng.normal(size=(4, 16)).astype(np.float32)


def test_jax_alone_is_rounding():
    c = debug.compare(network, *drawn())
    assert c.outcome in ("rounding", "same") and c.passed and {r["layer"] for r in c.layers} >= {"layer 0", "layer 1"}
    assert any(o["scope"] == "layer 1/step 3" for o in c.ops)  # the loop is looked into


def test_jax_against_another():
    c = debug.compare(lambda p, x: network(p, x, 1.01), *drawn(), baseline=network)
    assert c.outcome == "defect" and c.first["scope"] == "layer 0" and c.op == "mul"


def test_auto_cast_is_rounding_and_past_f32s_tolerance():
    c = debug.compare(network, *drawn(), auto_cast="matmult", tolerance=1e-4)
    assert c.outcome == "rounding" and not c.passed and c.op == "dot_general"


def test_a_stretch_written_otherwise_is_no_defect():
    def other(params, x):
        with jax.named_scope("layer 0"):
            e = jnp.exp(2 * (x @ params["w"]))
            h = (e - 1) / (e + 1)
        with jax.named_scope("layer 1"):
            before = jnp.concatenate([jnp.zeros_like(h[:1]), jnp.cumsum(h, 0)[:-1]])
            return jnp.exp(-jnp.square(before))

    c = debug.compare(other, *drawn(), baseline=network)
    assert c.outcome == "rounding" and c.passed


def test_torch_in_bfloat16_is_rounding():
    model, x = nets.good()
    c = debug.compare(copy.deepcopy(model).to(torch.bfloat16), x.to(torch.bfloat16), baseline=model, baseline_args=(x,))
    assert c.outcome == "rounding" and c.passed


def test_torch_model_of_transformers_against_the_zoo():
    """Two frameworks, one model: the same numbers are found under other names and shapes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from trine.models import build

    config = GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=61, n_positions=32, n_ctx=32, attn_implementation="eager")
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    zoo = build({**config.to_dict(), "architectures": ["GPT2LMHeadModel"]})
    tokens = np.arange(8, dtype=np.int32)[None]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        params = zoo.load(folder)
    c = debug.compare(lambda p, t: zoo.forward(p, {"tokens": t}), params, tokens,
                      baseline=lambda t: model(t, use_cache=False).logits, baseline_args=(torch.from_numpy(tokens).long(),))  # fmt: skip
    assert c.outcome == "rounding" and c.passed, c
    broken = {**params, "layers": [{**params["layers"][0], "down": {**params["layers"][0]["down"], "b": params["layers"][0]["down"]["b"] + np.linspace(0, 1, 32, dtype=np.float32)}}]}
    c = debug.compare(lambda p, t: zoo.forward(p, {"tokens": t}), broken, tokens,
                      baseline=lambda t: model(t, use_cache=False).logits, baseline_args=(torch.from_numpy(tokens).long(),))  # fmt: skip
    assert c.outcome == "defect" and c.first["scope"].startswith("layer 0/mlp"), c.first


def test_measures():
    a = np.array([[1.0, 2.0, 3.0]], np.float32)
    assert measures.relative(a, a) == 0 and measures.ulp(a, a) == 0 and measures.cosine(a, a) == 1
    assert measures.ulp(a + np.float32(2**-22), a) == pytest.approx(2**-22 / 2**-23, rel=0.6)
    assert measures.relative(np.array([np.nan]), np.array([1.0])) == np.inf
    logits = np.linspace(0, 1, 100)[None]
    assert measures.logits_match(logits, logits)["passed"]
    assert not measures.logits_match(logits + 0.015, logits)["passed"]  # k=5 allows 0.01
    assert measures.top_k(logits[:, ::-1], logits, 5) == (0.0, 0.0)
