"""GGUF files of every family that has them: a model of transformers, written as llama.cpp's converter would, gives its logits.

Names come from the `gguf` package's own map; what the converter does to values is stated here.
"""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
T = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from trine import models  # noqa: E402

HEADS, KEYS, DIM = 4, 2, 8
SIZES = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS,
             max_position_embeddings=64)  # fmt: skip
GROUPED = SIZES | dict(num_key_value_heads=KEYS)
META = {"embedding_length": 32, "block_count": 2, "feed_forward_length": 48, "attention.head_count": HEADS, "context_length": 64,
        "attention.head_count_kv": KEYS, "rope.dimension_count": DIM}  # fmt: skip
ROWS = {
    "llama": ("LlamaForCausalLM", GROUPED, {}),
    "llama 3.1": ("LlamaForCausalLM", GROUPED | dict(rope_parameters=dict(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16)), {}),
    "mixtral": ("MixtralForCausalLM", GROUPED | dict(num_local_experts=4), {"expert_count": 4, "expert_used_count": 2}),
    "qwen2": ("Qwen2ForCausalLM", GROUPED, {}),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | dict(head_dim=16), {"attention.key_length": 16, "rope.dimension_count": 16}),
    "gemma": ("GemmaForCausalLM", GROUPED | dict(head_dim=16), {"attention.key_length": 16, "rope.dimension_count": 16}),
    "phi3": ("Phi3ForCausalLM", GROUPED | dict(pad_token_id=0), {}),
    "phi2": ("PhiForCausalLM", SIZES, {"attention.head_count_kv": HEADS, "rope.dimension_count": 4}),
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=48),
             {"attention.head_count_kv": HEADS, "rope.dimension_count": None}),
    "gptneox": ("GPTNeoXForCausalLM", SIZES, {"attention.head_count_kv": HEADS, "rope.dimension_count": 2}),
    "falcon 7b": ("FalconForCausalLM", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
                  {"feed_forward_length": 128, "attention.head_count_kv": 1}),
    "falcon": ("FalconForCausalLM", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
                                         new_decoder_architecture=True), {"feed_forward_length": 128}),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED, {}),
    "qwen2moe": ("Qwen2MoeForCausalLM", GROUPED | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40),
                 {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24, "expert_shared_feed_forward_length": 40}),
    "qwen3moe": ("Qwen3MoeForCausalLM", GROUPED | dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True),
                 {"attention.key_length": 16, "rope.dimension_count": 16, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24}),
    "gemma2": ("Gemma2ForCausalLM", GROUPED | dict(head_dim=16, sliding_window=5, query_pre_attn_scalar=16),
               {"attention.key_length": 16, "rope.dimension_count": 16, "attention.sliding_window": 5}),
    "gemma3": ("Gemma3ForCausalLM", GROUPED | dict(head_dim=16, sliding_window=5, query_pre_attn_scalar=16),
               {"attention.key_length": 16, "rope.dimension_count": 16, "attention.sliding_window": 5}),
    "granite": ("GraniteForCausalLM", GROUPED | dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=4.0),
                {"embedding_scale": 3.0, "attention.scale": 0.2, "residual_scale": 0.5, "logit_scale": 4.0}),
    "smollm3": ("SmolLM3ForCausalLM", GROUPED | dict(pad_token_id=0), {}),
    "arcee": ("ArceeForCausalLM", GROUPED, {}),
    "olmo2": ("Olmo2ForCausalLM", GROUPED, {}),
}  # fmt: skip


def side_by_side(value, heads, keys):
    """Grouped q, k, v of GPT-NeoX and Falcon as all queries, all keys, all values."""
    grouped = value.reshape(keys, heads // keys + 2, -1, *value.shape[1:])
    parts = grouped[:, :-2], grouped[:, -2:-1], grouped[:, -1:]
    return np.concatenate([p.reshape(-1, *value.shape[1:]) for p in parts])


def converted(arch, name, value):
    if arch.startswith(("llama", "mixtral", "granite", "smollm3", "arcee")) and name.endswith(("q_proj.weight", "k_proj.weight")):
        return value.reshape(-1, 2, DIM // 2, 32).swapaxes(1, 2).reshape(value.shape)  # pairs of rotary dims side by side
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        return value + 1
    if arch == "gpt2" and any(part in name for part in ("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return value.T
    if "query_key_value" in name:
        return side_by_side(value, HEADS, {"gptneox": HEADS, "falcon 7b": 1}.get(arch, KEYS))
    return value


def tensors_of(theirs, arch):
    """Their tensors by GGUF's names."""
    kind = next(k for k, n in gguf.MODEL_ARCH_NAMES.items() if n == ("llama" if arch == "mixtral" else arch.split()[0]))
    names = gguf.get_tensor_name_map(kind, 2)
    state = {n: v.numpy() for n, v in theirs.state_dict().items()}
    if arch == "mixtral":  # one tensor for all experts of a layer, as in memory
        for i in range(2):
            both = state.pop(f"model.layers.{i}.mlp.experts.gate_up_proj")
            experts = f"model.layers.{i}.block_sparse_moe.experts"
            state[experts + ".w1.weight"], state[experts + ".w3.weight"] = both[:, :48], both[:, 48:]
            state[experts + ".w2.weight"] = state.pop(f"model.layers.{i}.mlp.experts.down_proj")
            state[f"model.layers.{i}.block_sparse_moe.gate.weight"] = state.pop(f"model.layers.{i}.mlp.gate.weight")
    if arch in ("qwen2moe", "qwen3moe"):
        for i in range(2):
            both, experts = state.pop(f"model.layers.{i}.mlp.experts.gate_up_proj"), f"model.layers.{i}.mlp.experts"
            state[experts + ".gate_proj.weight"], state[experts + ".up_proj.weight"] = both[:, :24], both[:, 24:]
            state[experts + ".down_proj.weight"] = state.pop(f"model.layers.{i}.mlp.experts.down_proj")
    if arch == "llama 3.1":  # how far each frequency is stretched
        yield "rope_freqs.weight", (500000.0 ** (-np.arange(0, DIM, 2) / DIM) / theirs.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
    tied = theirs.config.tie_word_embeddings
    for name, value in state.items():
        if not (tied and name == "lm_head.weight"):
            yield names.get_name(name, (".weight", ".bias")), converted(arch, name, value)


@pytest.mark.parametrize("arch", ROWS)
def test_family(arch, tmp_path):
    """`mixtral` is written as llama."""
    kind, config, more = ROWS[arch]
    torch.manual_seed(0)
    cls = getattr(T, kind)
    theirs = cls(cls.config_class(**config)).eval()
    with torch.no_grad():
        for value in theirs.parameters():
            value.add_(torch.randn(value.shape) * 0.1)
    path = tmp_path / "m.gguf"
    written = "llama" if arch == "mixtral" else arch.split()[0]
    writer = gguf.GGUFWriter(path, written)
    for name, value in (META | more).items():
        if value is not None:
            (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(f"{written}.{name}", value)
    c = theirs.config
    if theta := (getattr(c, "rope_parameters", None) or {}).get("rope_theta"):
        writer.add_float32(f"{written}.rope.freq_base", theta)
    layer = "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"
    for key, names in (("attention.layer_norm_rms_epsilon", ("rms_norm_eps",)), ("attention.layer_norm_epsilon", layer)):
        for eps in (getattr(c, n) for n in names if hasattr(c, n)):
            writer.add_float32(f"{written}.{key}", eps)
    for name, value in tensors_of(theirs, arch):
        assert name, "the map has no name for a tensor"
        writer.add_tensor(name, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    ours = models.build(path)
    tokens = np.random.default_rng(0).integers(3, 99, (2, 12)).astype(np.int32)
    got = np.asarray(jax.jit(ours.forward)(ours.load(path), {"tokens": tokens}))
    want = theirs(torch.tensor(tokens).long()).logits.detach().numpy()
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()
