"""Decoders of dense_rows and expert_rows give what `transformers` gives."""

import pytest
from model_checks import GROUPED, SIZES, decodes_alike
from trine import models

FOUR = GROUPED | dict(num_hidden_layers=4)
LATENT = dict(kv_lora_rank=16, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
OLD = dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)
DENSE = {
    "olmo": ("OlmoForCausalLM", GROUPED),
    "olmo clipped": ("OlmoForCausalLM", GROUPED | dict(clip_qkv=0.4)),
    "olmo3": ("Olmo3ForCausalLM", FOUR | dict(sliding_window=5)),
    "olmo3 stretched": ("Olmo3ForCausalLM", FOUR | dict(sliding_window=5, rope_parameters=dict(full_attention=YARN,
                                                        sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    "exaone4": ("Exaone4ForCausalLM", FOUR | dict(sliding_window=5)),
    "exaone4 without windows": ("Exaone4ForCausalLM", GROUPED | dict(sliding_window=None, layer_types=["full_attention"] * 2)),
    "cwm": ("CwmForCausalLM", FOUR | dict(head_dim=8, sliding_window=5)),
    "ernie4_5": ("Ernie4_5ForCausalLM", GROUPED | dict(head_dim=16, use_bias=True)),
    "helium": ("HeliumForCausalLM", GROUPED | dict(head_dim=8, attention_bias=True)),
    "seed_oss": ("SeedOssForCausalLM", GROUPED | dict(head_dim=16, attention_out_bias=True, pad_token_id=0)),
    "jais2": ("Jais2ForCausalLM", GROUPED | dict(head_dim=8)),
    "nemotron": ("NemotronForCausalLM", GROUPED | dict(attention_bias=True, mlp_bias=True)),
    "apertus": ("ApertusForCausalLM", GROUPED),
    "stablelm": ("StableLmForCausalLM", GROUPED | dict(use_qkv_bias=True, partial_rotary_factor=0.5)),
    "stablelm parallel": ("StableLmForCausalLM", GROUPED | dict(use_parallel_residual=True)),
    "persimmon": ("PersimmonForCausalLM", SIZES),
    "hyperclovax": ("HyperCLOVAXForCausalLM", GROUPED | dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5,
                                                             logits_scaling=0.25)),
    "hyperclovax without norms after": ("HyperCLOVAXForCausalLM", GROUPED | dict(use_post_norm=False)),
    "vaultgemma": ("VaultGemmaForCausalLM", GROUPED | dict(head_dim=16, sliding_window=5, query_pre_attn_scalar=20)),
    "youtu": ("YoutuForCausalLM", SIZES | LATENT),
    "minicpm3": ("MiniCPM3ForCausalLM", SIZES | LATENT | dict(scale_emb=3, scale_depth=1.4, dim_model_base=16)),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", OLD),
    "gpt_bigcode with all heads": ("GPTBigCodeForCausalLM", OLD | dict(multi_query=False, n_inner=48)),
    "codegen": ("CodeGenForCausalLM", OLD | dict(n_head=8, rotary_dim=4)),
    "biogpt": ("BioGptForCausalLM", SIZES),
    "openai-gpt": ("OpenAIGPTLMHeadModel", OLD),
}  # fmt: skip

FEW = dict(num_experts_per_tok=2, moe_intermediate_size=24)
ROUTED = GROUPED | FEW | dict(n_routed_experts=8, head_dim=8)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=6, mamba_n_groups=2, mamba_chunk_size=4, mamba_expand=2)
FACTORS = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=4.0)
EXPERTS = {
    "olmoe": ("OlmoeForCausalLM", GROUPED | dict(num_experts=4, num_experts_per_tok=2)),
    "flex_olmo": ("FlexOlmoForCausalLM", GROUPED | dict(num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, pad_token_id=0)),
    "granitemoe": ("GraniteMoeForCausalLM", GROUPED | FACTORS | dict(num_local_experts=4)),
    "granitemoeshared": ("GraniteMoeSharedForCausalLM", GROUPED | FACTORS | dict(num_local_experts=4, shared_intermediate_size=24)),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", GROUPED | FACTORS | MAMBA | dict(
        num_local_experts=4, shared_intermediate_size=24, layer_types=["linear_attention", "full_attention"])),
    "granitemoehybrid without experts": ("GraniteMoeHybridForCausalLM", GROUPED | FACTORS | MAMBA | dict(
        num_local_experts=0, shared_intermediate_size=24, position_embedding_type="rope", layer_types=["full_attention", "linear_attention"])),
    "glm4_moe": ("Glm4MoeForCausalLM", ROUTED | dict(use_qk_norm=True, attention_bias=True, n_group=2, topk_group=1, routed_scaling_factor=1.5)),
    "glm4_moe without norms": ("Glm4MoeForCausalLM", ROUTED | dict(norm_topk_prob=False)),
    "solar_open": ("SolarOpenForCausalLM", ROUTED),
    "dots1": ("Dots1ForCausalLM", ROUTED | dict(num_hidden_layers=3, n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=True,
                                                sliding_window=5, max_window_layers=2)),
    "glm4_moe_lite": ("Glm4MoeLiteForCausalLM", SIZES | FEW | LATENT | dict(n_routed_experts=4)),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", GROUPED | dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=2)),
    "ernie4_5_moe with biases": ("Ernie4_5_MoeForCausalLM", FOUR | dict(
        moe_num_experts=4, moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=0, moe_layer_interval=2, moe_layer_end_index=2)),
    "lfm2_moe": ("Lfm2MoeForCausalLM", GROUPED | FEW | dict(num_experts=4, num_dense_layers=1, layer_types=["conv", "full_attention"])),
    "minimax_m2": ("MiniMaxM2ForCausalLM", GROUPED | dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, rotary_dim=4)),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSE)
def test_dense(name, tmp_path):
    decodes_alike(*DENSE[name], tmp_path)


@pytest.mark.parametrize("name", EXPERTS)
def test_experts(name, tmp_path):
    decodes_alike(*EXPERTS[name], tmp_path)


def test_what_the_zoo_lacks_is_refused_by_name():
    config = dict(model_type="stablelm", qk_layernorm=True, partial_rotary_factor=0.25) | GROUPED
    with pytest.raises(models.ConfigError, match='"qk_layernorm" of stablelm is True'):
        models.build(config)
