"""More decoders with experts, one row each: what differs from the row it is like. Needs no JAX."""

from trine.models.decoder_rows import (
    DEEPSEEK, LAYER, LFM2, LLAMA, MIXTRAL_NAMES, MOE, deepseek_first, deepseek_router, expert_names, lfm_forms, plain_layers,
    state_names, step_limits,
)  # fmt: skip
from trine.models.dense_rows import NORMED_NAMES, use_bias
from trine.models.rows import Key, forms_of, key, layer_types, rope_of, window_of
from trine.models.settings import Router, StateSpace


def soft_router(config):
    return Router(normed=bool(config.get("norm_topk_prob", False)))


def of_experts(config, shared="n_shared_experts"):
    """Width of what every token goes to."""
    return config["moe_intermediate_size"] * (config.get(shared) or 0)


# Keys of deepseek's experts under plain attention.
GROUPED = MOE | dict(ffn=Key("moe_intermediate_size"), chosen=key("num_experts_per_tok", 8), shared_ffn=of_experts, router=deepseek_router,
                     forms=deepseek_first, mlp_bias=False)  # fmt: skip
SHARED_NAMES = expert_names("mlp", shared="shared_experts")


def dots_forms(config):
    first = config.get("max_window_layers", 62)
    types = layer_types(config, lambda i: "sliding_attention" if window_of(config) and i >= first else "full_attention")
    plain, windows = deepseek_first(config), forms_of(types, {"sliding_attention": {"window": window_of(config)}, "full_attention": {}})
    return tuple(a + b for a, b in zip(plain, windows, strict=True)) if plain and windows else plain or windows


def listed_first(config):
    """mlp_layer_types, else the first layer alone has no experts."""
    types = config.get("mlp_layer_types")
    return plain_layers(config, lambda i: types[i] == "dense" if types else i == 0)


def ernie_plain(config):
    first, last, each = (config.get("moe_layer_" + name, usual) for name, usual in (("start_index", 1), ("end_index", -1), ("interval", 1)))
    last = config["num_hidden_layers"] - 1 if last == -1 else last
    return plain_layers(config, lambda i: (i + 1) % each != 0 or not first <= i <= last)


def lfm_moe_forms(config):
    first = config.get("num_dense_layers") or 0
    mixers = lfm_forms(config) or ((),) * config["num_hidden_layers"]
    plain = plain_layers(config, lambda i: i < first) or ((),) * config["num_hidden_layers"]
    return tuple(a + b for a, b in zip(mixers, plain, strict=True))


# ---- IBM's: experts in two tensors

GRANITE_EXPERTS = {
    f"layers.{n}.w": f"={LAYER}block_sparse_moe.{tensor}" for n, tensor in
    (("gate", "input_linear.weight#gate"), ("up", "input_linear.weight#up"), ("down", "output_linear.weight"))
} | {"layers.router": LAYER + "block_sparse_moe.router.layer"} | {
    f"layers.shared.{n}": f"{LAYER}shared_mlp.{tensor}" for n, tensor in
    (("gate", "input_linear#gate"), ("up", "input_linear#up"), ("down", "output_linear"))
}  # fmt: skip
GRANITE_MOE = LLAMA.like(
    "granitemoe", "granite with experts", GRANITE_EXPERTS, **MOE | dict(
        experts=key("num_local_experts", 8), mlp_bias=False,
        embed_scale=key("embedding_multiplier", 1.0), score_scale=key("attention_multiplier", 1.0),
        residual=key("residual_multiplier", 1.0), head_scale=lambda c: 1 / (c.get("logits_scaling") or 1.0)))  # fmt: skip


def granite_space(config):
    least, most = step_limits(config)
    return StateSpace(
        2, int(config.get("mamba_expand", 2) * config["hidden_size"]), config.get("mamba_d_state", 256), config.get("mamba_d_conv", 4),
        heads=config.get("mamba_n_heads", 128), groups=config.get("mamba_n_groups", 1), chunk=config.get("mamba_chunk_size", 256),
        bias=bool(config.get("mamba_proj_bias", False)), out_bias=bool(config.get("mamba_proj_bias", False)),
        conv_bias=bool(config.get("mamba_conv_bias", True)), least=least, most=most,
    )  # fmt: skip


def granite_hybrid_forms(config):
    types = config.get("layer_types") or config.get("layers_block_type")
    states, seen = {"mixer": "state"}, {}
    return forms_of(types or ["mamba"] * config["num_hidden_layers"],
                    {"mamba": states, "linear_attention": states, "attention": seen, "full_attention": seen})  # fmt: skip


def has_experts(config):
    return bool(config.get("num_local_experts", 8))


EXPERTS = [
    LLAMA.like("olmoe", "LLaMA with experts and a norm over all of q and of k", expert_names("mlp"), **MOE | dict(
        qk_norm="whole", mlp_bias=False, chosen=key("num_experts_per_tok", 8), eps=key("rms_norm_eps", 1e-5), router=soft_router),
        fixed=dict(clip_qkv=None)),
    LLAMA.like("flex_olmo", "olmo2 with experts", NORMED_NAMES | expert_names("mlp"), **MOE | dict(
        block="normed", qk_norm="whole", mlp_bias=False, chosen=key("num_experts_per_tok", 5), eps=key("rms_norm_eps", 1e-6),
        router=soft_router, rope=lambda c: rope_of(c, theta=500000.0))),
    GRANITE_MOE,
    GRANITE_MOE.like("granitemoeshared", "granitemoe with one more for all", shared_ffn=key("shared_intermediate_size", 0)),
    GRANITE_MOE.like("granitemoehybrid", "granite with mamba2 in place of most attention", state_names(LAYER + "mamba.") | {
            "layers.o": LAYER + "self_attn.o_proj|" + LAYER + "mamba.out_proj"} | {
            f"layers.{n}.w": f"={LAYER}block_sparse_moe.{tensor}|={LAYER}shared_mlp.{tensor}" for n, tensor in
            (("gate", "input_linear.weight#gate"), ("up", "input_linear.weight#up"), ("down", "output_linear.weight"))},
        space=granite_space, forms=granite_hybrid_forms, positions=lambda c: "rope" if c.get("position_embedding_type") == "rope" else "none",
        experts=lambda c: c.get("num_local_experts", 8) or 0, shared_ffn=lambda c: c.get("shared_intermediate_size", 1024) * has_experts(c),
        ffn=lambda c: c["intermediate_size"] if has_experts(c) else c.get("shared_intermediate_size", 1024),
        also=("mamba_d_head", "intermediate_size", "num_experts_per_tok", "layers_block_type", "normalization_function", "init_method")),
    LLAMA.like("glm4_moe", "LLaMA with half of a head turned; deepseek's experts", SHARED_NAMES, **GROUPED | dict(
        o_bias=False, eps=key("rms_norm_eps", 1e-5), rope=lambda c: rope_of(c, share=0.5),
        qk_norm=lambda c: "head" if c.get("use_qk_norm") else ""), also=("num_nextn_predict_layers", "num_mtp_layers")),
    LLAMA.like("solar_open", "LLaMA with deepseek's experts in every layer", SHARED_NAMES, **GROUPED | dict(
        o_bias=False, eps=key("rms_norm_eps", 1e-5), forms=(), head_dim=key("head_dim", 128), rope=lambda c: rope_of(c, theta=1000000.0)),
        also=("intermediate_size", "first_k_dense_replace")),
    LLAMA.like("dots1", "qwen3 with deepseek's experts", SHARED_NAMES, **GROUPED | dict(qk_norm="head", forms=dots_forms)),
    DEEPSEEK.like("glm4_moe_lite", "deepseek_v3 whose first layer alone has no experts", forms=listed_first, also=("intermediate_size",)),
    LLAMA.like("ernie4_5_moe", "ernie4_5 with experts", SHARED_NAMES | {
            "layers.router_correction": "=" + LAYER + "mlp.moe_statics.e_score_correction_bias"},
        ffn=Key("moe_intermediate_size"), experts=Key("moe_num_experts", "num_experts"), chosen=Key("moe_k", "num_experts_per_tok", default=6),
        shared_ffn=lambda c: of_experts(c, "moe_num_shared_experts"), router=Router(corrected=True), forms=ernie_plain,
        qkv_bias=use_bias, o_bias=use_bias, mlp_bias=use_bias, eps=key("rms_norm_eps", 1e-5), tied=key("tie_word_embeddings", True),
        rope=lambda c: rope_of(c, paired=True, theta=500000.0), also=("moe_norm_min",)),
    LFM2.like("lfm2_moe", "lfm2 with experts after the first layers", {
            f"layers.{n}": f"{LAYER}feed_forward.experts.{{}}.{w}|{LAYER}feed_forward.{w}" for n, w in (("gate", "w1"), ("up", "w3"), ("down", "w2"))} | {
            "layers.router": LAYER + "feed_forward.gate", "layers.router_correction": "=" + LAYER + "feed_forward.expert_bias"},
        experts=Key("num_experts"), chosen=key("num_experts_per_tok", 4), ffn=Key("moe_intermediate_size"), forms=lfm_moe_forms,
        router=lambda c: Router(kind="sigmoid", normed=bool(c.get("norm_topk_prob", True)), scale=c.get("routed_scaling_factor", 1.0),
                                corrected=bool(c.get("use_expert_bias", True)))),
    LLAMA.like("minimax_m2", "mixtral whose router is corrected, with a norm over all of q and of k", MIXTRAL_NAMES | {
            "layers.router_correction": "=" + LAYER + "block_sparse_moe.e_score_correction_bias"}, **MOE | dict(
        qkv_bias=False, o_bias=False, mlp_bias=False, qk_norm="whole", chosen=key("num_experts_per_tok", 8),
        router=Router(kind="sigmoid", corrected=True), head_dim=key("head_dim", 128),
        rope=lambda c: rope_of(c, share=(c.get("rotary_dim") or c.get("head_dim", 128)) / c.get("head_dim", 128), theta=5000000.0)),
        also=("router_jitter_noise",)),
]  # fmt: skip
