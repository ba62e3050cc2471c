"""Decoders beyond the first ones give what `transformers` gives: forward, a prompt into the cache, tokens out of it."""

import jax
import numpy as np
import pytest
import torch
from model_checks import GROUPED, SIZES, decodes_alike, megatron_file, near, pair, tokens
from trine import models

FOUR = GROUPED | dict(num_hidden_layers=4)
EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24)
LATENT = dict(kv_lora_rank=16, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, n_routed_experts=8, num_experts_per_tok=2,
              moe_intermediate_size=24, first_k_dense_replace=1, n_shared_experts=2, routed_scaling_factor=1.5)  # fmt: skip
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
MSCALE = YARN | dict(mscale=1.0, mscale_all_dim=0.7, beta_fast=32, beta_slow=1)
LONG = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[2.0, 3.0, 4.0, 5.0],
            original_max_position_embeddings=32, short_mscale=1.2, long_mscale=1.3)  # fmt: skip
H1 = GROUPED | dict(mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=4, head_dim=8)
CASES = {
    "ministral": ("MinistralForCausalLM", GROUPED | dict(head_dim=8, sliding_window=5, layer_types=["full_attention", "sliding_attention"])),
    "qwen2_moe": ("Qwen2MoeForCausalLM", FOUR | EXPERTS | dict(shared_expert_intermediate_size=40, mlp_only_layers=[1], decoder_sparse_step=1)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", GROUPED | EXPERTS | dict(head_dim=16, norm_topk_prob=True)),
    "gemma2": ("Gemma2ForCausalLM", GROUPED | dict(head_dim=16, sliding_window=5, query_pre_attn_scalar=20)),
    "gemma3_text": ("Gemma3ForCausalLM", GROUPED | dict(head_dim=16, sliding_window=5, layer_types=["sliding_attention", "full_attention"])),
    "gpt_oss": ("GptOssForCausalLM", GROUPED | dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
                                                    rope_parameters=YARN | dict(truncate=False))),
    "deepseek_v3": ("DeepseekV3ForCausalLM", SIZES | LATENT | dict(n_group=4, topk_group=2, rope_parameters=MSCALE)),
    "deepseek_v3 without rank": ("DeepseekV3ForCausalLM", SIZES | LATENT | dict(n_group=1, topk_group=1, q_lora_rank=None)),
    "deepseek_v2": ("DeepseekV2ForCausalLM", SIZES | LATENT | dict(topk_method="greedy")),
    "deepseek_v2 grouped": ("DeepseekV2ForCausalLM", SIZES | LATENT | dict(topk_method="group_limited_greedy", n_group=4, topk_group=2)),
    "granite": ("GraniteForCausalLM", GROUPED | dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5,
    logits_scaling=4.0)),
    "phimoe": ("PhimoeForCausalLM", GROUPED | dict(num_local_experts=4, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.3)),
    "phimoe long": ("PhimoeForCausalLM", GROUPED | dict(num_local_experts=4, rope_parameters=LONG)),
    "cohere": ("CohereForCausalLM", GROUPED),
    "cohere norms": ("CohereForCausalLM", GROUPED | dict(use_qk_norm=True)),
    "cohere2": ("Cohere2ForCausalLM", FOUR | dict(sliding_window=5)),
    "glm": ("GlmForCausalLM", GROUPED | dict(head_dim=16, pad_token_id=0, attention_bias=True)),
    "glm4": ("Glm4ForCausalLM", GROUPED | dict(head_dim=16, pad_token_id=0, attention_bias=True)),
    "smollm3": ("SmolLM3ForCausalLM", FOUR | dict(pad_token_id=0, use_sliding_window=True, sliding_window=5)),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM", GROUPED | dict(head_dim=16,
    rope_parameters=dict(rope_type="dynamic", alpha=50.0, factor=1.0, rope_theta=10000.0))),
    "hunyuan_v1_moe": ("HunYuanMoEV1ForCausalLM", GROUPED | dict(head_dim=16, num_experts=4, moe_topk=[2, 2])),
    "lfm2": ("Lfm2ForCausalLM", GROUPED | dict(layer_types=["conv", "full_attention"], block_multiple_of=16)),
    "mamba": ("MambaForCausalLM", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=6)),
    "falcon_mamba": ("FalconMambaForCausalLM", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=6)),
    "mamba2": ("Mamba2ForCausalLM", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=6, num_heads=8, head_dim=8, n_groups=2,
    chunk_size=4)),
    "falcon_h1": ("FalconH1ForCausalLM", H1 | dict(key_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8, attention_in_multiplier=1.1,
                                                  attention_out_multiplier=0.9, embedding_multiplier=2.0, lm_head_multiplier=0.5,
                                                  mlp_multipliers=[0.9, 1.2],
                                                  ssm_multipliers=[0.9, 0.8, 1.1, 1.2, 0.7])),
    "falcon_h1 normed": ("FalconH1ForCausalLM", H1 | dict(mamba_rms_norm=True, mamba_norm_before_gate=False, tie_word_embeddings=True)),
    "arcee": ("ArceeForCausalLM", GROUPED),
    "xglm": ("XGLMForCausalLM", dict(vocab_size=99, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4, max_position_embeddings=64)),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM", SIZES | dict(num_hidden_layers=4, num_key_value_heads=1, lru_width=48, attention_window_size=5)),
    "gptj": ("GPTJForCausalLM", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4)),
    "gpt_neo": ("GPTNeoForCausalLM", dict(vocab_size=99, hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=64, window_size=5,
                                          attention_types=[[["global", "local"], 1]])),
    "bloom": ("BloomForCausalLM", dict(vocab_size=99, hidden_size=32, n_layer=2, n_head=4)),
    "mpt": ("MptForCausalLM", dict(vocab_size=99, d_model=36, n_layers=2, n_heads=3, max_seq_len=64)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_decoder(name, tmp_path):
    decodes_alike(*CASES[name], tmp_path)


@pytest.mark.parametrize("kind", ["GPT2Model", "Qwen2Model"])
def test_bare(kind, tmp_path):
    """A file of the class without a head gives hidden states, writes no text, and is trained with one."""
    sizes = dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64) if kind == "GPT2Model" else GROUPED
    theirs, ours, params = pair(kind, sizes, tmp_path)
    ids = tokens()
    with torch.no_grad():
        want = theirs(torch.tensor(ids).long(), use_cache=False).last_hidden_state
    near(jax.jit(ours.forward)(params, {"tokens": ids}), want)
    assert not ours.writes and "head" not in params
    assert models.phase(ours, "train", 1, 8).shapes[0].keys() >= {"tokens", "layers"}
    with pytest.raises(models.ConfigError, match="writes no text"):
        ours.prefill(params, {"tokens": ids}, ours.empty_cache(2, 16))


@pytest.mark.parametrize("gated", [False, True], ids=["learned positions", "rotary and gated"])
def test_megatron(gated, tmp_path):
    """By Megatron's keys and tensors, what `transformers` gives of the same weights under the names it has for them."""
    common = dict(model_type="megatron_gpt", hidden_size=32, num_layers=2, num_attention_heads=4, max_position_embeddings=64, padded_vocab_size=99)
    if gated:
        theirs, _, _ = pair("LlamaForCausalLM", GROUPED | dict(rms_norm_eps=1e-5), tmp_path)
        config = common | dict(ffn_hidden_size=48, num_query_groups=2, group_query_attention=True, position_embedding_type="rope",
            normalization="RMSNorm", swiglu=True,
                               add_bias_linear=False, untie_embeddings_and_output_weights=True)  # fmt: skip
    else:
        theirs, _, _ = pair("GPT2LMHeadModel", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, activation_function="gelu"),
            tmp_path)
        config = common | dict(position_embedding_type="learned_absolute", normalization="LayerNorm")
    megatron_file(theirs, tmp_path, 2 if gated else 4, gated)
    ours, ids = models.build(config), tokens()
    with torch.no_grad():
        want = theirs(torch.tensor(ids).long(), use_cache=False).logits
    near(jax.jit(ours.forward)(ours.load(tmp_path / "megatron.safetensors"), {"tokens": ids}), want)
