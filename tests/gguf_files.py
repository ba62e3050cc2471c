"""Small GGUF files of every architecture, written as llama.cpp's converter would: a model of transformers with random weights.

Names come from the `gguf` package's own map; what the converter does to names and values is stated here.
"""

import gguf
import numpy as np
import torch
import transformers as T

HEADS, KEYS, DIM, WIDTH = 4, 2, 16, 64
SIZES = dict(vocab_size=99, hidden_size=WIDTH, intermediate_size=96, num_hidden_layers=2, num_attention_heads=HEADS,
             max_position_embeddings=64)  # fmt: skip
GROUPED = SIZES | dict(num_key_value_heads=KEYS)
WIDE = GROUPED | dict(head_dim=32)
META = {"embedding_length": WIDTH, "block_count": 2, "feed_forward_length": 96, "attention.head_count": HEADS, "context_length": 64,
        "attention.head_count_kv": KEYS, "rope.dimension_count": DIM}  # fmt: skip
WIDE_META = {"attention.key_length": 32, "rope.dimension_count": 32}
BARE = {"attention.head_count": 0, "attention.head_count_kv": None, "feed_forward_length": 0, "rope.dimension_count": None}
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
YARN_META = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}
LATENT = dict(kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=16, qk_nope_head_dim=24, v_head_dim=20, n_routed_experts=8, num_experts_per_tok=2,
              moe_intermediate_size=32, first_k_dense_replace=1, n_shared_experts=2, routed_scaling_factor=1.5)  # fmt: skip
LATENT_META = {"attention.kv_lora_rank": 32, "attention.q_lora_rank": 48, "rope.dimension_count": 16, "attention.head_count_kv": 1,
               "attention.key_length": 48, "attention.value_length": 32, "attention.key_length_mla": 40, "attention.value_length_mla": 20,
               "expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 32, "leading_dense_block_count": 1,
               "expert_shared_count": 2, "expert_weights_scale": 1.5}  # fmt: skip
LONG = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]
SHORT = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]
STATES = dict(vocab_size=99, hidden_size=WIDTH, num_hidden_layers=2, state_size=4)
STATES_META = BARE | {"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 4}
H1_FACTORS = dict(key_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8, attention_in_multiplier=1.1, attention_out_multiplier=0.9,
                  embedding_multiplier=2.0, lm_head_multiplier=0.5, mlp_multipliers=[0.9, 1.2], ssm_multipliers=[0.9, 0.8, 1.1, 1.2, 0.7])  # fmt: skip
ROWS = {
    "llama": ("Llama", GROUPED, {}),
    "llama 3.1": ("Llama", GROUPED | dict(rope_parameters=dict(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16)), {}),
    "mixtral": ("Mixtral", GROUPED | dict(num_local_experts=4), {"expert_count": 4, "expert_used_count": 2}),
    "qwen2": ("Qwen2", GROUPED, {}),
    "qwen3": ("Qwen3", WIDE, WIDE_META),
    "gemma": ("Gemma", WIDE, WIDE_META),
    "phi3": ("Phi3", GROUPED | dict(pad_token_id=0), {}),
    "phi3 long": ("Phi3", GROUPED | dict(pad_token_id=0, original_max_position_embeddings=16, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, long_factor=LONG, short_factor=SHORT, original_max_position_embeddings=16)),
        {"rope.scaling.original_context_length": 16, "rope.scaling.attn_factor": (1 + np.log(4) / np.log(16)) ** 0.5}),
    "phi2": ("Phi", SIZES, {"attention.head_count_kv": HEADS, "rope.dimension_count": 8}),
    "gpt2": ("GPT2LMHead", dict(vocab_size=99, n_embd=WIDTH, n_layer=2, n_head=4, n_positions=64, n_inner=96),
             {"attention.head_count_kv": HEADS, "rope.dimension_count": None}),
    "gptneox": ("GPTNeoX", SIZES, {"attention.head_count_kv": HEADS, "rope.dimension_count": 4, "use_parallel_residual": True}),
    "gptneox one after the other": ("GPTNeoX", SIZES | dict(use_parallel_residual=False),
                                    {"attention.head_count_kv": HEADS, "rope.dimension_count": 4, "use_parallel_residual": False}),
    "falcon 7b": ("Falcon", dict(vocab_size=99, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4),
                  {"feed_forward_length": 256, "attention.head_count_kv": 1}),
    "falcon": ("Falcon", dict(vocab_size=99, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
                              new_decoder_architecture=True), {"feed_forward_length": 256}),
    "starcoder2": ("Starcoder2", GROUPED, {}),
    "qwen2moe": ("Qwen2Moe", GROUPED | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64),
                 {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 64}),
    "qwen3moe": ("Qwen3Moe", WIDE | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True),
                 WIDE_META | {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}),
    "gemma2": ("Gemma2", WIDE | dict(sliding_window=5, query_pre_attn_scalar=32), WIDE_META | {"attention.sliding_window": 5}),
    "gemma3": ("Gemma3", WIDE | dict(sliding_window=5, query_pre_attn_scalar=32), WIDE_META | {"attention.sliding_window": 5}),
    "granite": ("Granite", GROUPED | dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=4.0),
                {"embedding_scale": 3.0, "attention.scale": 0.2, "residual_scale": 0.5, "logit_scale": 4.0}),
    "smollm3": ("SmolLM3", GROUPED | dict(pad_token_id=0), {}),
    "arcee": ("Arcee", GROUPED, {}),
    "olmo2": ("Olmo2", GROUPED, {}),
    "gpt-oss": ("GptOss", WIDE | dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=5, rope_parameters=YARN | dict(truncate=False)),
                WIDE_META | YARN_META | {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 96, "attention.sliding_window": 5}),
    "deepseek2": ("DeepseekV2", SIZES | LATENT, LATENT_META | {"expert_gating_func": 1}),
    "deepseek2 grouped": ("DeepseekV2", SIZES | LATENT | dict(topk_method="group_limited_greedy", n_group=4, topk_group=2),
                          LATENT_META | {"expert_gating_func": 1, "expert_group_count": 4, "expert_group_used_count": 2}),
    "deepseek2 sigmoid": ("DeepseekV3", SIZES | LATENT | dict(n_group=4, topk_group=2, rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=0.7)),
                          LATENT_META | YARN_META | {"expert_gating_func": 2, "expert_group_count": 4, "expert_group_used_count": 2,
                                                     "expert_weights_norm": True, "rope.scaling.yarn_log_multiplier": 0.07}),
    "deepseek2 old": ("DeepseekV2", SIZES | LATENT | dict(q_lora_rank=None),
                      LATENT_META | {"attention.q_lora_rank": None, "attention.key_length_mla": None, "attention.value_length_mla": None,
                                     "attention.key_length": 40, "attention.value_length": 20, "attention.head_count_kv": 4}),
    "phimoe": ("Phimoe", GROUPED | dict(num_local_experts=4, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.01),
               {"expert_count": 4, "expert_used_count": 2}),
    "command-r": ("Cohere", GROUPED | dict(use_qk_norm=True, logit_scale=0.5, eos_token_id=1), {"logit_scale": 0.5}),
    "cohere2": ("Cohere2", GROUPED | dict(num_hidden_layers=4, sliding_window=5, logit_scale=0.5, eos_token_id=1),
                {"logit_scale": 0.5, "block_count": 4, "attention.sliding_window": 5}),
    "chatglm": ("Glm", WIDE | dict(pad_token_id=0, attention_bias=True), {"attention.key_length": 32}),
    "glm4": ("Glm4", WIDE | dict(pad_token_id=0, attention_bias=True), {"attention.key_length": 32}),
    "hunyuan-dense": ("HunYuanDenseV1", WIDE, WIDE_META),
    "hunyuan-moe": ("HunYuanMoEV1", WIDE | dict(num_experts=4, moe_topk=[2, 2]),
                    WIDE_META | {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 96, "expert_shared_feed_forward_length": 96}),
    "lfm2": ("Lfm2", GROUPED | dict(layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False),
             {"attention.head_count_kv": [0, 2], "shortconv.l_cache": 3}),
    "mamba": ("Mamba", STATES, STATES_META | {"ssm.time_step_rank": 4, "ssm.dt_b_c_rms": False}),
    "mamba falcon": ("FalconMamba", STATES, STATES_META | {"ssm.time_step_rank": 4, "ssm.dt_b_c_rms": True}),
    "mamba2": ("Mamba2", STATES | dict(num_heads=8, head_dim=16, n_groups=2, chunk_size=4),
               STATES_META | {"ssm.time_step_rank": 8, "ssm.group_count": 2}),
    "falcon-h1": ("FalconH1", WIDE | H1_FACTORS | dict(mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=2,
                                                       mamba_chunk_size=4, mamba_rms_norm=True, mamba_norm_before_gate=False),
                  {"attention.key_length": 32, "rope.dimension_count": None, "ssm.conv_kernel": 4, "ssm.inner_size": 48, "ssm.state_size": 8,
                   "ssm.time_step_rank": 6, "ssm.group_count": 2}),
    "bloom": ("Bloom", dict(vocab_size=99, hidden_size=WIDTH, n_layer=2, n_head=4),
              {"feed_forward_length": 256, "attention.head_count_kv": 4, "rope.dimension_count": None}),
    "mpt": ("Mpt", dict(vocab_size=99, d_model=WIDTH, n_layers=2, n_heads=4, max_seq_len=64, attn_config=dict(clip_qkv=0.5)),
            {"feed_forward_length": 256, "attention.head_count_kv": None, "rope.dimension_count": None, "attention.max_alibi_bias": 8.0,
             "attention.clamp_kqv": 0.5, "attention.layer_norm_epsilon": 1e-5}),
}  # fmt: skip
FEW = dict(num_experts_per_tok=2, moe_intermediate_size=32)
FEW_META = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
NARROW = dict(kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=16, qk_nope_head_dim=24, v_head_dim=20)
NARROW_META = {"attention.kv_lora_rank": 32, "attention.q_lora_rank": 48, "rope.dimension_count": 16, "attention.head_count_kv": 1}
FACTORS = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=4.0)
FACTORS_META = {"embedding_scale": 3.0, "attention.scale": 0.2, "residual_scale": 0.5, "logit_scale": 4.0}
HYBRID = GROUPED | FACTORS | dict(mamba_n_heads=8, mamba_d_head=16, mamba_d_state=6, mamba_n_groups=2, mamba_chunk_size=4, mamba_expand=2,
                                  shared_intermediate_size=32, layer_types=["mamba", "attention"])  # fmt: skip
HYBRID_META = FACTORS_META | {"attention.head_count_kv": [0, 2], "ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 6,
                              "ssm.time_step_rank": 8, "ssm.group_count": 2, "rope.scaling.finetuned": False}  # fmt: skip
ROWS |= {
    "olmo": ("Olmo", GROUPED | dict(clip_qkv=0.6), {"attention.clamp_kqv": 0.6, "attention.layer_norm_epsilon": 1e-5}),
    "olmo2 windows": ("Olmo3", GROUPED | dict(num_hidden_layers=4, sliding_window=5),
                      {"block_count": 4, "attention.sliding_window": 5, "attention.sliding_window_pattern": [True, True, True, False]}),
    "exaone4": ("Exaone4", GROUPED | dict(num_hidden_layers=4, sliding_window=5),
                {"block_count": 4, "attention.sliding_window": 5, "attention.sliding_window_pattern": [True, True, True, False]}),
    "exaone4 without windows": ("Exaone4", GROUPED | dict(sliding_window=None, layer_types=["full_attention"] * 2), {}),
    "ernie4_5": ("Ernie4_5", GROUPED | dict(head_dim=32), WIDE_META),
    "ernie4_5 narrow": ("Ernie4_5", GROUPED | dict(head_dim=DIM, use_bias=True), {}),
    "seed_oss": ("SeedOss", WIDE | dict(pad_token_id=0), WIDE_META),
    "jais2": ("Jais2", WIDE, WIDE_META),
    "nemotron": ("Nemotron", GROUPED, {"rope.dimension_count": 8}),
    "apertus": ("Apertus", GROUPED, {}),
    "stablelm": ("StableLm", GROUPED | dict(use_qkv_bias=True), {"rope.dimension_count": 4, "use_parallel_residual": False}),
    "stablelm parallel": ("StableLm", GROUPED | dict(use_parallel_residual=True), {"rope.dimension_count": 4, "use_parallel_residual": True}),
    "minicpm3": ("MiniCPM3", SIZES | NARROW | dict(v_head_dim=16, scale_emb=12, scale_depth=1.4, dim_model_base=256),
                 NARROW_META | {"attention.head_count_kv": 4, "attention.key_length": 40}),
    "starcoder": ("GPTBigCode", dict(vocab_size=99, n_embd=WIDTH, n_layer=2, n_head=4, n_positions=64, n_inner=96),
                  {"attention.head_count_kv": 1, "rope.dimension_count": None}),
    "olmoe": ("Olmoe", GROUPED | dict(num_experts=4, num_experts_per_tok=2), {"expert_count": 4, "expert_used_count": 2}),
    "granitemoe": ("GraniteMoe", GROUPED | FACTORS | dict(num_local_experts=4, num_experts_per_tok=2),
                   FACTORS_META | {"expert_count": 4, "expert_used_count": 2}),
    "granitemoe shared": ("GraniteMoeShared", GROUPED | FACTORS | dict(num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=32),
                          FACTORS_META | {"expert_count": 4, "expert_used_count": 2, "expert_shared_feed_forward_length": 32}),
    "granitehybrid": ("GraniteMoeHybrid", HYBRID | dict(num_local_experts=4, num_experts_per_tok=2),
                      HYBRID_META | {"expert_count": 4, "expert_used_count": 2, "expert_shared_feed_forward_length": 32}),
    "granitehybrid dense": ("GraniteMoeHybrid", HYBRID | dict(num_local_experts=0), HYBRID_META | {"feed_forward_length": 32}),
    "glm4moe": ("Glm4Moe", WIDE | FEW | dict(n_routed_experts=4, use_qk_norm=True, attention_bias=True, first_k_dense_replace=1, routed_scaling_factor=1.5),
                FEW_META | {"attention.key_length": 32, "rope.dimension_count": DIM, "expert_shared_count": 1, "leading_dense_block_count": 1,
                            "expert_weights_scale": 1.5, "expert_weights_norm": True, "expert_group_count": 1, "expert_group_used_count": 1,
                            "expert_gating_func": 2}),
    "glm4moe solar": ("SolarOpen", WIDE | FEW | dict(n_routed_experts=4),
                      FEW_META | WIDE_META | {"expert_shared_count": 1, "leading_dense_block_count": 0, "expert_weights_scale": 1.0,
                                              "expert_weights_norm": True, "expert_gating_func": 2}),
    "deepseek2 glm": ("Glm4MoeLite", SIZES | FEW | NARROW | dict(n_routed_experts=4, routed_scaling_factor=1.5),
                      NARROW_META | FEW_META | {"attention.key_length": 48, "attention.value_length": 32, "attention.key_length_mla": 40,
                                                "attention.value_length_mla": 20, "leading_dense_block_count": 1, "expert_shared_count": 1,
                                                "expert_weights_scale": 1.5, "expert_weights_norm": True, "expert_gating_func": 2}),
    "deepseek2 without experts": ("Youtu", SIZES | NARROW,
                                  NARROW_META | {"attention.key_length": 48, "attention.value_length": 32, "attention.key_length_mla": 40,
                                                 "attention.value_length_mla": 20, "leading_dense_block_count": 2}),
    "dots1": ("Dots1", WIDE | FEW | dict(n_routed_experts=4, n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=1.5),
              FEW_META | WIDE_META | {"expert_shared_count": 2, "leading_dense_block_count": 1, "expert_weights_scale": 1.5,
                                      "expert_weights_norm": False, "expert_gating_func": 2}),
    "ernie4_5-moe": ("Ernie4_5_Moe", GROUPED | dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=32),
                     FEW_META | {"expert_shared_count": 2, "leading_dense_block_count": 1, "interleave_moe_layer_step": 1,
                                 "expert_shared_feed_forward_length": 64}),
    "lfm2moe": ("Lfm2Moe", GROUPED | FEW | dict(num_experts=4, num_dense_layers=1, layer_types=["conv", "full_attention"]),
                FEW_META | {"attention.head_count_kv": [0, 2], "shortconv.l_cache": 3, "leading_dense_block_count": 1, "expert_gating_func": 2}),
    "minimax-m2": ("MiniMaxM2", WIDE | dict(num_local_experts=4, num_experts_per_tok=2, rotary_dim=16, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
        {"attention.key_length": 32, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 96, "expert_gating_func": 2}),
}  # fmt: skip


def written_as(arch):
    """`mixtral` is written as llama."""
    return "llama" if arch == "mixtral" else arch.split()[0]


def side_by_side(value, heads, keys):
    """Grouped q, k, v of GPT-NeoX, Falcon and BLOOM as all queries, all keys, all values."""
    grouped = value.reshape(keys, heads // keys + 2, -1, *value.shape[1:])
    parts = grouped[:, :-2], grouped[:, -2:-1], grouped[:, -1:]
    return np.concatenate([p.reshape(-1, *value.shape[1:]) for p in parts])


def h1_factor(config, name):
    """What the converter folds into a tensor of Falcon-H1."""
    into, out = config.attention_in_multiplier, config.attention_out_multiplier
    factors = {"down_proj": config.mlp_multipliers[1], "gate_proj": config.mlp_multipliers[0], "k_proj": config.key_multiplier * into, "q_proj": into,
               "v_proj": into, "o_proj": out, "out_proj": config.ssm_out_multiplier, "lm_head": config.lm_head_multiplier,
               "embed_tokens": config.embedding_multiplier}  # fmt: skip
    if "in_proj" in name:
        sizes = [config.mamba_d_ssm] * 2 + [config.mamba_n_groups * config.mamba_d_state] * 2 + [config.mamba_n_heads]
        return np.repeat(np.float32(config.ssm_multipliers) * np.float32(config.ssm_in_multiplier), sizes)[:, None]
    return np.float32(next((factor for part, factor in factors.items() if f".{part}." in f".{name}"), 1.0))


def converted(arch, name, value, config):
    if arch == "nemotron" and "norm" in name and name.endswith("weight"):
        return value + 1
    paired = arch.startswith(("llama", "mixtral", "granite", "smollm3", "arcee", "olmo")) and not arch.startswith(("olmo2", "olmoe"))
    if paired and name.endswith(("q_proj.weight", "k_proj.weight")):
        return value.reshape(-1, 2, DIM // 2, WIDTH).swapaxes(1, 2).reshape(value.shape)  # pairs of rotary dims side by side
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        return value + 1
    if arch == "gpt2" and any(part in name for part in ("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return value.T
    if "query_key_value" in name:
        return side_by_side(value, HEADS, {"gptneox": HEADS, "bloom": HEADS, "falcon 7b": 1}.get(arch, HEADS if "neox" in arch else KEYS))
    if name.endswith("A_log"):
        value = -np.exp(value)
    if name.endswith(("conv1d.weight", "conv.conv.weight")):
        value = value[:, 0]
    if arch.startswith(("mamba2", "falcon-h1", "granitehybrid")) and name.endswith(("A_log", ".D")):
        value = value[:, None]
    if name.endswith(("mixer.norm.weight", "mamba.norm.weight")):
        value = value.reshape(2, -1)
    return value * h1_factor(config, name) if arch == "falcon-h1" else value


def oss_experts(name, value):
    """gate and up lie in turns, and everything is turned."""
    if name.endswith("_bias"):
        name, value = name.removesuffix("_bias") + ".bias", value[:, None]
    else:
        name, value = name + ".weight", value.swapaxes(1, 2)
    if "gate_up" not in name:
        yield name, value.squeeze(1) if name.endswith("bias") else value
        return
    value = value.swapaxes(1, 2) if name.endswith("bias") else value
    for part, own in (("gate_proj", value[:, ::2]), ("up_proj", value[:, 1::2])):
        yield name.replace("gate_up_proj", part), own.squeeze(2) if name.endswith("bias") else own


def granite_mlp(arch, name, value):
    """Experts, and what all tokens go to: the MLP of a file without experts."""
    at, _, own = name.partition(".block_sparse_moe." if "block_sparse_moe" in name else ".shared_mlp.")
    kind = "mlp.experts" if "block_sparse_moe" in name else "mlp" if arch.endswith("dense") else "mlp.shared_experts"
    if own == "router.weight":
        yield f"{at}.block_sparse_moe.router.layer.weight", value
    elif own in ("experts.down_proj", "output_linear.weight"):
        yield f"{at}.{kind}.down_proj.weight", value
    else:
        gate, up = np.split(value, 2, value.ndim - 2)
        yield from ((f"{at}.{kind}.gate_proj.weight", gate), (f"{at}.{kind}.up_proj.weight", up))


def renamed(arch, name, value, config):
    """Their tensor as the converter's map knows it: one of experts as gate, up and down, latent keys apart from values."""
    if arch == "gpt-oss" and ".experts." in name:
        yield from oss_experts(name, value)
    elif ".act_fn." in name:
        return  # numbers of the metadata
    elif arch.startswith("granite") and ("block_sparse_moe" in name or "shared_mlp" in name):
        yield from granite_mlp(arch, name, value)
    elif name.endswith("experts.gate_up_proj"):
        gate, up = np.split(value, 2, 1)
        if arch == "mixtral" or arch == "phimoe":
            name = name.replace("mlp.experts.gate_up_proj", "block_sparse_moe.experts")
            yield from ((name + ".w1.weight", gate), (name + ".w3.weight", up))
        else:
            yield from ((name.replace("gate_up", part) + ".weight", own) for part, own in (("gate", gate), ("up", up)))
    elif name.endswith("experts.down_proj"):
        moe = arch in ("mixtral", "phimoe")
        yield name.replace("mlp.experts.down_proj", "block_sparse_moe.experts.w2") + ".weight" if moe else name + ".weight", value
    elif arch in ("mixtral", "phimoe") and ".mlp." in name:
        yield name.replace(".mlp.gate.", ".block_sparse_moe.gate.").replace(".mlp.router.", ".block_sparse_moe.gate."), value
    elif name.endswith("kv_b_proj.weight") and arch not in ("deepseek2 old", "minicpm3"):
        k, v = np.split(value.reshape(HEADS, -1, config.kv_lora_rank), [config.qk_nope_head_dim], 1)
        yield from ((name.replace("kv_b", "k_b"), k.swapaxes(1, 2)), (name.replace("kv_b", "v_b"), v))
    elif name.endswith("e_score_correction_bias"):
        yield name.replace("e_score_correction_bias", "e_score_correction.bias").replace("mlp.gate.moe_statics", "mlp.moe_statics"), value.reshape(-1)
    elif name.endswith("expert_bias"):
        yield name + ".bias", value
    elif name.endswith("dt_bias"):
        yield name.replace("dt_bias", "dt_proj.bias"), value
    else:
        yield name + ".weight" if name.endswith("sinks") else name, value


def tensors_of(theirs, arch):
    """Their tensors by GGUF's names."""
    kind = next(k for k, n in gguf.MODEL_ARCH_NAMES.items() if n == written_as(arch))
    names = gguf.get_tensor_name_map(kind, theirs.config.num_hidden_layers)
    if arch in ("llama 3.1", "apertus"):  # how far each frequency is stretched
        base = theirs.config.rope_parameters["rope_theta"] ** (-np.arange(0, DIM, 2) / DIM)
        yield "rope_freqs.weight", (base / theirs.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
    if arch == "phi3 long":
        yield "rope_factors_long.weight", np.float32(LONG)
        yield "rope_factors_short.weight", np.float32(SHORT)
    tied = theirs.config.tie_word_embeddings
    for theirs_name, whole in theirs.state_dict().items():
        if tied and theirs_name == "lm_head.weight":
            continue
        for name, value in renamed(arch, theirs_name, whole.numpy(), theirs.config):
            name = name.removeprefix("transformer.") if arch == "bloom" else name
            found = names.get_name(name, (".weight", ".bias"))
            assert found, f"the map has no name for {name}"
            yield found, converted(arch, name, value, theirs.config)


def add_meta(writer, name, value):
    kinds = {bool: writer.add_bool, str: writer.add_string, int: writer.add_uint32, list: writer.add_array}
    kinds.get(type(value), writer.add_float32)(name, value)


def model_of(arch):
    kind, config, _ = ROWS[arch]
    torch.manual_seed(0)
    cls = getattr(T, kind + ("Model" if kind.endswith("LMHead") else "ForCausalLM"))
    theirs = cls(cls.config_class(**config)).eval().float()
    with torch.no_grad():
        for value in [*theirs.parameters(), *(b for n, b in theirs.named_buffers() if n.endswith("correction_bias"))]:
            value.add_(torch.randn(value.shape) * 0.1)
    return theirs


def write(theirs, arch, path, stored=None):
    """stored(name, value): what add_tensor takes of a tensor, in fewer bits."""
    as_, more = written_as(arch), ROWS[arch][2]
    writer = gguf.GGUFWriter(path, as_)
    for name, value in (META | more).items():
        if value is not None:
            add_meta(writer, f"{as_}.{name}", value)
    c = theirs.config
    if theta := (getattr(c, "rope_parameters", None) or {}).get("rope_theta"):
        writer.add_float32(f"{as_}.rope.freq_base", theta)
    layer, rms = ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"), ("rms_norm_eps", "norm_eps")
    if as_.startswith("mamba"):
        layer, rms = (), ("layer_norm_epsilon",)
    for key, names in (("attention.layer_norm_rms_epsilon", rms), ("attention.layer_norm_epsilon", layer)):
        for eps in (getattr(c, n) for n in names if hasattr(c, n)):
            if f"{as_}.{key}" not in writer.kv_data[0]:
                writer.add_float32(f"{as_}.{key}", eps)
    if as_ == "apertus":
        for number in ("alpha_p", "alpha_n"):
            writer.add_array(f"{as_}.xielu.{number}", [layer.mlp.act_fn.get_parameter(number).item() for layer in theirs.model.layers])
    for name, value in tensors_of(theirs, arch):
        value = np.ascontiguousarray(value)
        writer.add_tensor(name, **stored(name, value) if stored else {"tensor": value})
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
