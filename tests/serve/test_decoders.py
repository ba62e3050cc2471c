"""Every family of decoders that the engine serves, against `transformers`: the same weights through a file, logits of a prompt in
chunks, and greedy tokens that theirs would have chosen."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import transformers  # noqa: E402
from model_checks import megatron_file, randomised  # noqa: E402

from trine import _core, models  # noqa: E402
from trine.models.decoder_rows import DECODERS  # noqa: E402
from trine.models.dense_rows import DENSE  # noqa: E402
from trine.models.expert_rows import EXPERTS as ROUTED_ROWS  # noqa: E402
from trine.serve import model  # noqa: E402

SIZES = dict(vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
GROUPED = SIZES | dict(num_key_value_heads=2)
FOUR = GROUPED | dict(num_hidden_layers=4)
OLD = dict(vocab_size=99, n_embd=64, n_layer=2, n_head=4, n_positions=64)
EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
LATENT = dict(kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=16, qk_nope_head_dim=24, v_head_dim=20, n_routed_experts=8, num_experts_per_tok=2,
              moe_intermediate_size=32, first_k_dense_replace=1, n_shared_experts=2, routed_scaling_factor=1.5)  # fmt: skip
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
MSCALE = YARN | dict(mscale=1.0, mscale_all_dim=0.7, beta_fast=32, beta_slow=1)
CASES = {
    "llama": ("Llama", GROUPED),
    "mistral": ("Mistral", GROUPED | dict(sliding_window=5)),
    "ministral": ("Ministral", GROUPED | dict(head_dim=16, sliding_window=5, layer_types=["full_attention", "sliding_attention"])),
    "mixtral": ("Mixtral", GROUPED | dict(num_local_experts=4, sliding_window=None)),
    "qwen2": ("Qwen2", GROUPED),
    "qwen2_moe": ("Qwen2Moe", FOUR | EXPERTS | dict(shared_expert_intermediate_size=40, mlp_only_layers=[1], decoder_sparse_step=1)),
    "qwen3": ("Qwen3", GROUPED | dict(head_dim=32)),
    "qwen3_moe": ("Qwen3Moe", GROUPED | EXPERTS | dict(head_dim=16, norm_topk_prob=True)),
    "gemma": ("Gemma", GROUPED | dict(head_dim=32)),
    "gemma2": ("Gemma2", GROUPED | dict(head_dim=16, sliding_window=5, query_pre_attn_scalar=20)),
    "gemma3_text": ("Gemma3", GROUPED | dict(head_dim=16, sliding_window=5, layer_types=["sliding_attention", "full_attention"])),
    "gpt_oss": ("GptOss", GROUPED | dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
                                         rope_parameters=YARN | dict(truncate=False))),
    "deepseek_v2": ("DeepseekV2", SIZES | LATENT | dict(topk_method="group_limited_greedy", n_group=4, topk_group=2)),
    "deepseek_v3": ("DeepseekV3", SIZES | LATENT | dict(n_group=4, topk_group=2, rope_parameters=MSCALE)),
    "deepseek_v3 without rank": ("DeepseekV3", SIZES | LATENT | dict(n_group=1, topk_group=1, q_lora_rank=None)),
    "granite": ("Granite", GROUPED | dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=4.0)),
    "phimoe": ("Phimoe", GROUPED | dict(num_local_experts=4, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.3)),
    "cohere": ("Cohere", GROUPED),
    "cohere norms": ("Cohere", GROUPED | dict(use_qk_norm=True)),
    "cohere2": ("Cohere2", FOUR | dict(sliding_window=5)),
    "glm": ("Glm", GROUPED | dict(head_dim=16, pad_token_id=0, attention_bias=True)),
    "glm4": ("Glm4", GROUPED | dict(head_dim=16, pad_token_id=0, attention_bias=True)),
    "smollm3": ("SmolLM3", FOUR | dict(pad_token_id=0, use_sliding_window=True, sliding_window=5)),
    "hunyuan_v1_dense": ("HunYuanDenseV1", GROUPED | dict(head_dim=16,
                         rope_parameters=dict(rope_type="dynamic", alpha=50.0, factor=1.0, rope_theta=10000.0))),
    "hunyuan_v1_moe": ("HunYuanMoEV1", GROUPED | dict(head_dim=16, num_experts=4, moe_topk=[2, 2])),
    "arcee": ("Arcee", GROUPED),
    "phi3": ("Phi3", GROUPED | dict(pad_token_id=0)),
    "olmo2": ("Olmo2", GROUPED),
    "starcoder2": ("Starcoder2", GROUPED),
    "phi": ("Phi", SIZES),
    "gpt2": ("GPT2LMHead", OLD),
    "gptj": ("GPTJ", OLD | dict(rotary_dim=8)),
    "gpt_neo": ("GPTNeo", dict(vocab_size=99, hidden_size=64, num_layers=2, num_heads=4, max_position_embeddings=64, window_size=5,
                               attention_types=[[["global", "local"], 1]])),
    "gpt_neox": ("GPTNeoX", SIZES),
    "bloom": ("Bloom", dict(vocab_size=99, hidden_size=64, n_layer=2, n_head=4)),
    "mpt": ("Mpt", dict(vocab_size=99, d_model=96, n_layers=2, n_heads=3, max_seq_len=64, attn_config=dict(clip_qkv=0.5))),
    "opt": ("OPT", dict(vocab_size=99, hidden_size=64, ffn_dim=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)),
    "opt narrow": ("OPT", dict(vocab_size=99, hidden_size=64, ffn_dim=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
                               word_embed_proj_dim=32, do_layer_norm_before=False)),
    "xglm": ("XGLM", dict(vocab_size=99, d_model=64, ffn_dim=96, num_layers=2, attention_heads=4, max_position_embeddings=64)),
    "falcon": ("Falcon", dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)),
    "falcon alibi": ("Falcon", dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, alibi=True)),
}  # fmt: skip
STATES = dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, state_size=6)
H1 = GROUPED | dict(mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=4, head_dim=16)
CASES |= {
    "lfm2": ("Lfm2", GROUPED | dict(layer_types=["conv", "full_attention"], block_multiple_of=16)),
    "mamba": ("Mamba", STATES),
    "falcon_mamba": ("FalconMamba", STATES),
    "mamba2": ("Mamba2", STATES | dict(num_heads=8, head_dim=16, n_groups=2, chunk_size=4)),
    "falcon_h1": ("FalconH1", H1 | dict(key_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8, attention_in_multiplier=1.1,
                                        attention_out_multiplier=0.9, embedding_multiplier=2.0, lm_head_multiplier=0.5, mlp_multipliers=[0.9, 1.2],
                                        ssm_multipliers=[0.9, 0.8, 1.1, 1.2, 0.7])),
    "falcon_h1 normed": ("FalconH1", H1 | dict(mamba_rms_norm=True, mamba_norm_before_gate=False, tie_word_embeddings=True)),
    "recurrent_gemma": ("RecurrentGemma", SIZES | dict(num_hidden_layers=4, num_key_value_heads=1, lru_width=48, attention_window_size=5)),
}  # fmt: skip
FEW = dict(num_experts_per_tok=2, moe_intermediate_size=32)
ROUTED = GROUPED | FEW | dict(n_routed_experts=8, head_dim=16)
NARROW = dict(kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=16, qk_nope_head_dim=24, v_head_dim=20)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=16, mamba_d_state=6, mamba_n_groups=2, mamba_chunk_size=4, mamba_expand=2)
FACTORS = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5)
CASES |= {
    "olmo": ("Olmo", GROUPED | dict(clip_qkv=0.6)),
    "olmo3": ("Olmo3", FOUR | dict(sliding_window=5)),
    "exaone4": ("Exaone4", FOUR | dict(sliding_window=5)),
    "cwm": ("Cwm", FOUR | dict(head_dim=16, sliding_window=5)),
    "ernie4_5": ("Ernie4_5", GROUPED | dict(head_dim=32, use_bias=True)),
    "helium": ("Helium", GROUPED | dict(head_dim=16)),
    "seed_oss": ("SeedOss", GROUPED | dict(head_dim=32, attention_out_bias=True, pad_token_id=0)),
    "jais2": ("Jais2", GROUPED | dict(head_dim=16)),
    "nemotron": ("Nemotron", GROUPED | dict(mlp_bias=True)),
    "apertus": ("Apertus", GROUPED),
    "stablelm": ("StableLm", GROUPED | dict(use_qkv_bias=True, partial_rotary_factor=0.5)),
    "stablelm parallel": ("StableLm", GROUPED | dict(use_parallel_residual=True, partial_rotary_factor=0.5)),
    "persimmon": ("Persimmon", SIZES),
    "hyperclovax": ("HyperCLOVAX", GROUPED | FACTORS | dict(logits_scaling=0.25)),
    "vaultgemma": ("VaultGemma", GROUPED | dict(head_dim=16, sliding_window=5, query_pre_attn_scalar=20)),
    "youtu": ("Youtu", SIZES | NARROW),
    "minicpm3": ("MiniCPM3", SIZES | NARROW | dict(scale_emb=3, dim_model_base=32)),
    "gpt_bigcode": ("GPTBigCode", OLD),
    "codegen": ("CodeGen", OLD | dict(rotary_dim=8)),
    "biogpt": ("BioGpt", SIZES),
    "openai-gpt": ("OpenAIGPTLMHead", OLD),
    "olmoe": ("Olmoe", GROUPED | dict(num_experts=4, num_experts_per_tok=2)),
    "flex_olmo": ("FlexOlmo", GROUPED | dict(num_experts=4, num_experts_per_tok=2, pad_token_id=0)),
    "granitemoe": ("GraniteMoe", GROUPED | FACTORS | dict(num_local_experts=4)),
    "granitemoeshared": ("GraniteMoeShared", GROUPED | FACTORS | dict(num_local_experts=4, shared_intermediate_size=32)),
    "granitemoehybrid": ("GraniteMoeHybrid", GROUPED | FACTORS | MAMBA | dict(
        num_local_experts=4, shared_intermediate_size=32, layer_types=["linear_attention", "full_attention"])),
    "granitemoehybrid without experts": ("GraniteMoeHybrid", GROUPED | FACTORS | MAMBA | dict(
        num_local_experts=0, shared_intermediate_size=32, layer_types=["full_attention", "linear_attention"])),
    "glm4_moe": ("Glm4Moe", ROUTED | dict(use_qk_norm=True, routed_scaling_factor=1.5)),
    "solar_open": ("SolarOpen", ROUTED),
    "dots1": ("Dots1", ROUTED | dict(n_shared_experts=2, first_k_dense_replace=1)),
    "glm4_moe_lite": ("Glm4MoeLite", SIZES | FEW | NARROW | dict(n_routed_experts=4)),
    "ernie4_5_moe": ("Ernie4_5_Moe", GROUPED | dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=32)),
    "lfm2_moe": ("Lfm2Moe", GROUPED | FEW | dict(num_experts=4, num_dense_layers=1, layer_types=["conv", "full_attention"])),
    "minimax_m2": ("MiniMaxM2", GROUPED | dict(num_local_experts=4, num_experts_per_tok=2, head_dim=16)),
}  # fmt: skip
HAIRS = {"phimoe"}  # f16 keys and values put two experts of one token in the other order: theirs, too, and compared with that
NO_TRANSFORMERS = {"megatron_gpt"}  # its own names; what it is otherwise is llama's or gpt2's, and test_megatron compares it with these


def theirs_of(kind, config):
    cls = getattr(transformers, kind + ("Model" if kind.endswith("LMHead") else "ForCausalLM"))
    return cls(cls.config_class(**config))


def keep_f16(theirs):
    """Lets a model of `transformers` keep keys and values as the engine does."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    own = theirs.config._attn_implementation
    attend = ALL_ATTENTION_FUNCTIONS[own]
    ALL_ATTENTION_FUNCTIONS["f16"] = lambda module, q, k, v, *more, **named: attend(module, q, k.half().float(), v.half().float(), *more, **named)
    ALL_MASK_ATTENTION_FUNCTIONS["f16"] = ALL_MASK_ATTENTION_FUNCTIONS[own]
    theirs.set_attn_implementation("f16")


def answered(prepared, prompt, new):
    """(log probabilities of the prompt's tokens after the first, greedy tokens)"""
    engine = _core.serve.Engine(prepared, {"pages": 64, "chunk": 7})
    try:
        engine.add({"prompt": prompt, "max_tokens": new, "temperature": 0.0, "prompt_logprobs": 0, "ignore_eos": True})
        each, tokens = None, []
        while True:
            for event in engine.wait(60):
                each = np.array([row["logprob"] for row in event["logprobs"]]) if event["kind"] == "prompt" else each
                tokens += [event["token"]] if event["kind"] == "token" else []
                if event["kind"] == "finished":
                    return each, tokens
    finally:
        engine.stop()


@pytest.mark.parametrize("name", CASES)
def test_logits_and_greedy_tokens(name, tmp_path):
    """Keys and values are kept as f16, so logits are as near as that allows."""
    kind, config = CASES[name]
    theirs = randomised(theirs_of(kind, config), 0.2)
    theirs.save_pretrained(tmp_path)
    prompt = np.random.default_rng(1).integers(3, 99, 30).tolist()
    found, tokens = answered(model.prepare(str(tmp_path)), prompt, 10)
    if name in HAIRS:
        keep_f16(theirs)
    with torch.no_grad():
        logits = theirs(torch.tensor([prompt + tokens]), use_cache=False).logits[0].float()
    each = torch.log_softmax(logits, -1).numpy()
    error = np.abs(found - each[np.arange(29), prompt[1:]])
    assert np.all(error < (1e-3 if name in HAIRS else 3e-2)), error
    after = each[29:39]
    assert np.all(after[np.arange(10), tokens] >= after.max(1) - 3e-2)
    assert np.ptp(after) > 0.5  # a model that says something


@pytest.mark.parametrize("gated", [False, True], ids=["learned positions", "rotary and gated"])
def test_megatron(gated, tmp_path):
    """By Megatron's keys and tensors, what `transformers` gives of the same weights under the names it has for them."""
    config = dict(model_type="megatron_gpt", hidden_size=64, num_layers=2, num_attention_heads=4, max_position_embeddings=64, padded_vocab_size=99)
    if gated:
        theirs = randomised(theirs_of("Llama", GROUPED | dict(rms_norm_eps=1e-5)), 0.2)
        config |= dict(ffn_hidden_size=96, num_query_groups=2, group_query_attention=True, position_embedding_type="rope", normalization="RMSNorm",
                       swiglu=True, add_bias_linear=False, untie_embeddings_and_output_weights=True)  # fmt: skip
    else:
        theirs = randomised(theirs_of("GPT2LMHead", OLD | dict(activation_function="gelu")), 0.2)
        config |= dict(position_embedding_type="learned_absolute", normalization="LayerNorm")
    megatron_file(theirs, tmp_path, 2 if gated else 4, gated)
    (tmp_path / "config.json").write_text(json.dumps(config))
    prompt = np.random.default_rng(1).integers(3, 99, 30).tolist()
    found, _ = answered(model.prepare(str(tmp_path)), prompt, 10)
    with torch.no_grad():
        each = torch.log_softmax(theirs(torch.tensor([prompt]), use_cache=False).logits[0].float(), -1).numpy()
    assert np.abs(found - each[np.arange(29), prompt[1:]]).max() < 3e-2


def test_what_is_not_served_is_named():
    """No decoder of the zoo is refused; settings that none of them has are."""
    odd = models.build("llama-3-8b").settings
    for made, says in ((replace(odd, layer_scale=True), "a factor per channel"), (replace(odd, positions="relative"), "positions of kind relative"),
                       (replace(odd, block="new"), "blocks of kind new"), (replace(odd, head=""), "no head")):  # fmt: skip
        with pytest.raises(models.ConfigError, match=says):
            model.check(made, "llama")


def test_every_decoder_is_served():
    named = {name.split()[0] for name in CASES} | NO_TRANSFORMERS
    assert named == {row.name for row in [*DECODERS, *DENSE, *ROUTED_ROWS]}
