"""Decoders, one row each: what differs from the row it is like, and what its weights are called. Needs no JAX.

Layers that differ from one another are told by `forms`; see rows.sliding and settings.Transformer.
"""

import math
from dataclasses import replace

from trine.models.rows import Family, Key, forms_of, key, layer_types, rope_of, sliding, stretched, window_of
from trine.models.settings import Latent, Rope, Router, StateSpace

HF_SIZES = dict(
    width=Key("hidden_size"), layers=Key("num_hidden_layers"), heads=Key("num_attention_heads"),
    ffn=Key("intermediate_size"), vocab=Key("vocab_size"), context=key("max_position_embeddings", 2048),
)  # fmt: skip
LAYER = "model.layers.{}."
LLAMA_NAMES = {
    "tokens": "model.embed_tokens", "norm": "model.norm", "head": "lm_head",
    "layers.norm1": "model.layers.{}.input_layernorm", "layers.norm2": "model.layers.{}.post_attention_layernorm",
    "layers.q": "model.layers.{}.self_attn.q_proj", "layers.k": "model.layers.{}.self_attn.k_proj",
    "layers.v": "model.layers.{}.self_attn.v_proj", "layers.o": "model.layers.{}.self_attn.o_proj",
    "layers.q_norm": "model.layers.{}.self_attn.q_norm", "layers.k_norm": "model.layers.{}.self_attn.k_norm",
    "layers.gate": "model.layers.{}.mlp.gate_proj", "layers.up": "model.layers.{}.mlp.up_proj",
    "layers.down": "model.layers.{}.mlp.down_proj",
}  # fmt: skip
FUSED_QKV = {f"layers.{n}": f"{LAYER}self_attn.qkv_proj#{n}" for n in "qkv"}
FUSED_MLP = {"layers.gate": LAYER + "mlp.gate_up_proj#gate", "layers.up": LAYER + "mlp.gate_up_proj#up"}


def expert_names(block, gate="gate_proj", up="up_proj", down="down_proj", router="gate", shared="", dense="mlp"):
    """Of experts one by one; layers without them have the names of a plain MLP."""
    mlp = LAYER + block + "."
    names = {f"layers.{ours}": f"{mlp}experts.{{}}.{theirs}|{LAYER}{dense}.{plain}"
             for ours, theirs, plain in (("gate", gate, "gate_proj"), ("up", up, "up_proj"), ("down", down, "down_proj"))}  # fmt: skip
    if shared:
        names |= {f"layers.shared.{n}": f"{mlp}{shared}.{n}_proj" for n in ("gate", "up", "down")}
        names["layers.shared_gate"] = f"{mlp}{shared}_gate"
    return names | {"layers.router": mlp + router, "layers.router_correction": f"={mlp}{router}.e_score_correction_bias"}


MIXTRAL_NAMES = expert_names("block_sparse_moe", "w1", "w3", "w2")
SANDWICH_NAMES = {
    "layers.norm1_after": LAYER + "post_attention_layernorm", "layers.norm2": LAYER + "pre_feedforward_layernorm",
    "layers.norm2_after": LAYER + "post_feedforward_layernorm",
}  # fmt: skip
LLAMA = Family(
    "llama", "decoder",
    HF_SIZES | dict(
        kv_heads=key("num_key_value_heads", 0), head_dim=key("head_dim", 0), norm="rms", eps=key("rms_norm_eps", 1e-6),
        rope=rope_of, activation=key("hidden_act", "silu"), gated=True, qkv_bias=key("attention_bias", False),
        o_bias=key("attention_bias", False), mlp_bias=key("mlp_bias", False), tied=key("tie_word_embeddings", False),
    ),
    LLAMA_NAMES, "model.", note="RMS norm, rotary positions, SwiGLU",
)  # fmt: skip
MISTRAL = LLAMA.like("mistral", "LLaMA with a sliding window", qkv_bias=False, o_bias=False, mlp_bias=False,
                     window=window_of)  # fmt: skip
NEOX_LAYER = "gpt_neox.layers.{}."
FALCON_LAYER = "transformer.h.{}."


def qwen_window(config):
    return window_of(config) * bool(config.get("use_sliding_window"))


def qwen_forms(config):
    """Newer files list the layers' kinds; the window is then where they say."""
    types = config.get("layer_types")
    if not types or "sliding_attention" not in types:
        return ()
    return forms_of(layer_types(config, None), {"sliding_attention": {"window": qwen_window(config)}, "full_attention": {"window": 0}})


QWEN_WINDOW = dict(window=lambda c: 0 if qwen_forms(c) else qwen_window(c), forms=qwen_forms,
                   window_from=lambda c: Key("max_window_layers", default=28)(c) * (not qwen_forms(c)))  # fmt: skip


def falcon_norms(config):
    if not config.get("parallel_attn", True):
        return 2
    two = 2 if config.get("new_decoder_architecture") else 1
    return config.get("num_ln_in_parallel_attn") or two


def falcon_kv_heads(config):
    if config.get("new_decoder_architecture"):
        return config.get("num_kv_heads") or config["num_attention_heads"]
    return 1 if config.get("multi_query", True) else config["num_attention_heads"]


def root_of_width(config):
    return config["hidden_size"] ** 0.5


# ---- experts

MOE = dict(experts=Key("num_local_experts", "num_experts", "n_routed_experts"), chosen=key("num_experts_per_tok", 2))


def plain_layers(config, is_plain):
    """Forms of the layers that have an MLP in the experts' place."""
    plain = (("experts", 0), ("ffn", config["intermediate_size"]), ("shared_ffn", 0), ("shared_gate", False))
    made = tuple(plain if is_plain(i) else () for i in range(config["num_hidden_layers"]))
    return made if any(made) else ()


def qwen_plain(config):
    """Layers without experts are named, or all but every so many-th."""
    named, each = config.get("mlp_only_layers") or (), config.get("decoder_sparse_step") or 1
    forms = plain_layers(config, lambda i: i in named or (i + 1) % each != 0)
    windows = qwen_forms(config)
    return tuple(a + b for a, b in zip(forms, windows, strict=True)) if forms and windows else forms or windows


def deepseek_router(config):
    sigmoid = config.get("scoring_func", "softmax" if config.kind() == "deepseek_v2" else "sigmoid") == "sigmoid"
    method = config.get("topk_method") or ("noaux_tc" if sigmoid else "greedy")
    grouped = method != "greedy"
    return Router(
        kind="sigmoid" if sigmoid else "softmax", normed=bool(config.get("norm_topk_prob", sigmoid)) and sigmoid,
        scale=config.get("routed_scaling_factor", 1.0), corrected=method == "noaux_tc",
        groups=(config.get("n_group") or 0) * grouped, best=(config.get("topk_group") or 0) * grouped, of_group=2 if method == "noaux_tc" else 1,
    )  # fmt: skip


def deepseek_latent(config):
    return Latent(rank=config["kv_lora_rank"], rotated=config["qk_rope_head_dim"], still=config["qk_nope_head_dim"],
                  values=config["v_head_dim"], q_rank=config.get("q_lora_rank") or 0)  # fmt: skip


def deepseek_scale(config):
    """Longer contexts sharpen the scores as well as they stretch the positions."""
    rope = rope_of(config)
    given = config.part("rope_parameters").get("mscale_all_dim") or config.part("rope_scaling").get("mscale_all_dim")
    sharper = stretched(rope.factor, given) ** 2 if given and rope.kind != "default" else 1.0
    latent = deepseek_latent(config)
    return (latent.still + latent.rotated) ** -0.5 * sharper


def deepseek_first(config):
    each = config.get("moe_layer_freq") or 1
    return plain_layers(config, lambda i: i < (config.get("first_k_dense_replace") or 0) or i % each != 0)


DEEPSEEK_NAMES = expert_names("mlp", shared="shared_experts") | {
    "layers.q": LAYER + "self_attn.q_b_proj|" + LAYER + "self_attn.q_proj", "layers.q_down": LAYER + "self_attn.q_a_proj",
    "layers.q_norm": LAYER + "self_attn.q_a_layernorm", "layers.kv_down": LAYER + "self_attn.kv_a_proj_with_mqa",
    "layers.kv_norm": LAYER + "self_attn.kv_a_layernorm", "layers.k_up": LAYER + "self_attn.kv_b_proj#k/latent",
    "layers.v_up": LAYER + "self_attn.kv_b_proj#v/latent",
}  # fmt: skip
DEEPSEEK = LLAMA.like(
    "deepseek_v3", "keys and values of one narrow vector per token; grouped experts and one for all", DEEPSEEK_NAMES,
    **MOE | dict(ffn=Key("moe_intermediate_size"), mixer="latent", latent=deepseek_latent, forms=deepseek_first, router=deepseek_router,
                 shared_ffn=lambda c: c["moe_intermediate_size"] * (c.get("n_shared_experts") or 0), score_scale=deepseek_scale, head_dim=0,
                 mlp_bias=False,
                 kv_heads=0, also=("num_key_value_heads", "head_dim", "qk_head_dim"),
                 rope=lambda c: rope_of(c, paired=c.get("rope_interleave", True) is not False)))  # fmt: skip


# ---- windows, positions


def gemma_types(config, i):
    """Every other layer sees a window in Gemma 2, five of six in Gemma 3."""
    each = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or (2 if config.kind() == "gemma2" else 6)
    return "sliding_attention" if (i + 1) % each else "full_attention"


def gemma3_forms(config):
    near = config.get("rope_local_base_freq") or 10000.0
    local = rope_of(config, part="sliding_attention", theta=near)
    if not isinstance(config.part("rope_parameters").values.get("sliding_attention"), dict):
        local = Rope(theta=near)
    types = layer_types(config, lambda i: gemma_types(config, i))
    return forms_of(types, {"sliding_attention": {"window": window_of(config), "rope": local}, "full_attention": {}})


GEMMA = LLAMA.like(
    "gemma", "LLaMA with wide heads, 1 + scale in norms, scaled embeddings, GeGLU", norm="rms1", head_dim=key("head_dim", 256),
    tied=key("tie_word_embeddings", True), mlp_bias=False, embed_scale=root_of_width,
    activation=Key("hidden_activation", "hidden_act", default="gelu_new"))  # fmt: skip
GEMMA2 = GEMMA.like(
    "gemma2", "Gemma with norms before and after, every other layer a window, capped scores and logits", SANDWICH_NAMES, block="sandwich",
    score_scale=lambda c: Key("query_pre_attn_scalar", default=256)(c) ** -0.5, forms=sliding(gemma_types),
    also=("hidden_act", "sliding_window_size"),
    score_cap=lambda c: c.get("attn_logit_softcapping", 50.0) or 0.0,
    logit_cap=lambda c: c.get("final_logit_softcapping", 30.0) or 0.0)  # fmt: skip


def smollm_forms(config):
    each, given = config.get("no_rope_layer_interval") or 4, config.get("no_rope_layers")
    count = config["num_hidden_layers"]
    rotated = given or [(i + 1) % each != 0 for i in range(count)]
    types, window = config.get("layer_types"), qwen_window(config)
    forms = [() if rotated[i] else (("positions", "none"),) for i in range(count)]
    if window:
        types = types or ["full_attention" if rotated[i] else "sliding_attention" for i in range(count)]
        forms = [form + ((("window", window),) if kind == "sliding_attention" else ()) for form, kind in zip(forms, types, strict=True)]
    return tuple(forms)


def hunyuan_rope(config):
    """Stretched by a fixed number, which their files call dynamic."""
    alpha = config.part("rope_scaling").get("alpha") or config.part("rope_parameters").get("alpha")
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = rope_of(config)
    return replace(rope, theta=rope.theta * alpha ** (dim / (dim - 2))) if alpha else rope


def cohere_forms(config):
    each = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 4
    types = layer_types(config, lambda i: "sliding_attention" if (i + 1) % each else "full_attention")
    return forms_of(types, {"sliding_attention": {"window": window_of(config)}, "full_attention": {"positions": "none"}})


COHERE = LLAMA.like(
    "cohere", "attention beside the MLP after one norm without a bias, rotary pairs side by side", norm="centred", block="parallel", norms=1,
    eps=key("layer_norm_eps", 1e-5), tied=key("tie_word_embeddings", True), head_scale=key("logit_scale", 0.0625), mlp_bias=False,
    rope=lambda c: rope_of(c, paired=True), qk_norm=lambda c: "own" if c.get("use_qk_norm") else "")  # fmt: skip
GLM = LLAMA.like(
    "glm", "LLaMA with biases on q, k, v, half of a head turned by pairs side by side", FUSED_MLP, o_bias=False, mlp_bias=False,
    eps=key("rms_norm_eps", 1.5625e-7),
    rope=lambda c: rope_of(c, share=0.5, paired=True), head_dim=key("head_dim", 128))  # fmt: skip


def neo_layers(config):
    """[[["global", "local"], 12]]: kinds of layer, and how often they follow one another."""
    kinds = [kind for some, times in config.get("attention_types", [[["global", "local"], 12]]) for _ in range(times) for kind in some]
    kinds = config.get("attention_layers") or kinds
    return forms_of(kinds, {"local": {"window": config.get("window_size", 256)}, "global": {}})


def expanded(config):
    return config.get("n_inner") or 4 * Key("n_embd", "hidden_size", "n_embed")(config)


def mpt_scale(config):
    given = config.part("attn_config")
    given.seen |= {"attn_impl", "attn_type", "attn_pdrop", "attn_uses_sequence_id", "alibi_bias_max"}
    return given.get("softmax_scale") or 0.0


GPT2 = Family("gpt2", "decoder", dict(
    width=Key("n_embd", "hidden_size"), layers=Key("n_layer", "num_hidden_layers"),
    heads=Key("n_head", "num_attention_heads"), context=Key("n_positions", "n_ctx", "max_position_embeddings", default=1024),
    vocab=Key("vocab_size"),
    ffn=expanded, positions="learned", activation=key("activation_function", "gelu_new"), eps=key("layer_norm_epsilon", 1e-5),
    tied=key("tie_word_embeddings", True)), {
    "tokens": "transformer.wte", "positions": "transformer.wpe", "norm": "transformer.ln_f", "head": "lm_head",
    "layers.norm1": "transformer.h.{}.ln_1", "layers.norm2": "transformer.h.{}.ln_2",
    "layers.q": "transformer.h.{}.attn.c_attn#q", "layers.k": "transformer.h.{}.attn.c_attn#k",
    "layers.v": "transformer.h.{}.attn.c_attn#v", "layers.o": "transformer.h.{}.attn.c_proj",
    "layers.up": "transformer.h.{}.mlp.c_fc", "layers.down": "transformer.h.{}.mlp.c_proj",
}, "transformer.", transposed=False, note="layer norm, learned positions, GELU", also=("n_ctx", "scale_attn_weights"))  # fmt: skip


# ---- states instead of keys


def mamba_space(config):
    """Kind 1: `mamba` and `falcon_mamba`."""
    width = config["hidden_size"]
    rank, biased = config.get("time_step_rank", "auto"), bool(config.get("use_bias", False))
    return StateSpace(
        1, config.get("intermediate_size") or int(config.get("expand", 2) * width), config.get("state_size", 16), config.get("conv_kernel", 4),
        rank=-(-width // 16) if rank == "auto" else rank, bias=biased, out_bias=biased, conv_bias=bool(config.get("use_conv_bias", True)),
        inner_norms=config.kind() == "falcon_mamba",
    )  # fmt: skip


def step_limits(config):
    """(least, most) of a step; JSON has no infinity, and files write it in more than one way."""
    given = config.get("time_step_limit") or (0.0, None)
    return tuple(float(value) if isinstance(value, int | float) else float("inf") for value in given)


def mamba2_space(config):
    least, most = step_limits(config)
    biased = bool(config.get("use_bias", False))
    return StateSpace(
        2, int(config.get("expand", 2) * config["hidden_size"]), config.get("state_size", 128), config.get("conv_kernel", 4),
        heads=config["num_heads"], groups=config.get("n_groups", 8), chunk=config.get("chunk_size", 256), bias=biased, out_bias=biased,
        conv_bias=bool(config.get("use_conv_bias", True)), least=least, most=most,
    )  # fmt: skip


def falcon_h1_space(config):
    into, scales = config.get("ssm_in_multiplier", 1.0) or 1.0, config.get("ssm_multipliers") or [1.0] * 5
    least, most = step_limits(config)
    groups = config.get("mamba_n_groups", 1)
    return StateSpace(
        2, config.get("mamba_d_ssm") or int(config.get("mamba_expand", 2) * config["hidden_size"]), config.get("mamba_d_state", 256),
        config.get("mamba_d_conv", 4), heads=config["mamba_n_heads"], groups=groups, chunk=config.get("mamba_chunk_size", 256),
        bias=bool(config.get("mamba_proj_bias", False)), out_bias=bool(config.get("projectors_bias", False)),
        conv_bias=bool(config.get("mamba_conv_bias", True)), normed=bool(config.get("mamba_rms_norm", False)), norm_groups=groups,
        gate_last=bool(config.get("mamba_norm_before_gate", True)), least=least, most=most, scales=tuple(s * into for s in scales),
    )  # fmt: skip


def state_names(mixer, inside=""):
    """Of a state's parameters, kind 2: all projections lie in one tensor, all convolutions in another."""
    ours = f"layers.{inside}"
    names = {ours + n: f"{mixer}in_proj#{n}/state" for n in ("z", "x", "into", "out", "steps")}
    names |= {f"{ours}conv{end}": f"{mixer}conv1d#{part}/taps" for end, part in (("", "x"), ("_into", "into"), ("_out", "out"))}
    return names | {ours + "d": f"={mixer}D", ours + "rates": f"={mixer}A_log", ours + "step_bias": f"={mixer}dt_bias",
                    ours + "o": f"{mixer}out_proj", ours + "norm": f"{mixer}norm"}  # fmt: skip


MIXER = "backbone.layers.{}.mixer."
MAMBA = Family(
    "mamba", "decoder", dict(
        width=Key("hidden_size"), layers=Key("num_hidden_layers", "n_layer"), heads=1, ffn=0, vocab=Key("vocab_size"), norm="rms", positions="none",
        eps=key("layer_norm_epsilon", 1e-5), activation=key("hidden_act", "silu"), tied=key("tie_word_embeddings", True), block="bare",
        mixer="state",
        space=mamba_space), {
        "tokens": "backbone.embeddings|backbone.embedding", "norm": "backbone.norm_f", "head": "lm_head", "layers.norm1": "backbone.layers.{}.norm",
        "layers.x": MIXER + "in_proj#gate", "layers.z": MIXER + "in_proj#up", "layers.conv": MIXER + "conv1d", "layers.inner": MIXER + "x_proj",
        "layers.steps": MIXER + "dt_proj", "layers.rates": f"={MIXER}A_log", "layers.d": f"={MIXER}D", "layers.o": MIXER + "out_proj",
    }, "backbone.", note="a decaying state per channel in attention's place, no MLP",
    also=("expand", "intermediate_size", "ssm_cfg", "d_model", "d_inner",
       "rms_norm", "fused_add_norm", "time_step_max", "time_step_min", "pad_vocab_size_multiple"))  # fmt: skip


def lfm_ffn(config):
    ffn, each = Key("block_ff_dim", "intermediate_size")(config), config.get("block_multiple_of", 256)
    times = config.get("block_ffn_dim_multiplier", 1.0)
    if not config.get("block_auto_adjust_ff_dim", True):
        return ffn
    ffn = int(2 * ffn / 3)
    return ffn if times is None else each * -(-int(times * ffn) // each)


def lfm_forms(config):
    seen = config.get("full_attn_idxs")
    types = layer_types(config, lambda i: "full_attention" if seen is None or i in seen else "conv")
    return forms_of(types, {"full_attention": {}, "conv": {"mixer": "convolution", "mlp_bias": bool(config.get("conv_bias"))}})


TEMPORAL = LAYER + "temporal_block."
GRIFFIN_NAMES = {
    "norm": "model.final_norm", "layers.norm1": LAYER + "temporal_pre_norm", "layers.norm2": LAYER + "channel_pre_norm",
    "layers.y": TEMPORAL + "linear_y", "layers.x": TEMPORAL + "linear_x", "layers.conv": TEMPORAL + "conv_1d",
    "layers.o": TEMPORAL + "o_proj|" + TEMPORAL + "linear_out", "layers.rates": "=" + TEMPORAL + "rg_lru.recurrent_param",
    **{f"layers.{n}": f"{TEMPORAL}{n}_proj" for n in "qkv"}, **{f"layers.{n}": f"{LAYER}mlp_block.{n}_proj" for n in ("gate", "up", "down")},
    **{f"layers.{ours}.{leaf}": f"=~{TEMPORAL}rg_lru.{theirs}_gate_{end}" for ours, theirs in (("into", "input"), ("decay", "recurrent"))
       for leaf, end in (("w", "weight"), ("b", "bias"))},
}  # fmt: skip


def griffin_scale(config):
    """The root of the width as bf16 has it, which its maker keeps."""
    share, power = math.frexp(root_of_width(config))
    return math.ldexp(round(share * 256) / 256, power)


def griffin_forms(config):
    kinds = config.get("block_types") or ("recurrent", "recurrent", "attention")
    return forms_of([kinds[i % len(kinds)] for i in range(config["num_hidden_layers"])], {"attention": {}, "recurrent": {"mixer": "recurrence"}})


# ---- what Megatron-LM and NeMo call a GPT


def megatron(name, *others, default):
    return Key(name, *others, default=default)


def megatron_rms(config):
    return megatron("normalization", default="LayerNorm")(config).lower() == "rmsnorm"


def megatron_gated(config):
    return bool(config.get("swiglu")) or config.get("activation", "gelu") in ("swiglu", "fast-swiglu")


def megatron_biased(config):
    return bool(megatron("add_bias_linear", "bias", default=not megatron_rms(config))(config))


def megatron_tied(config):
    shared = config.get("share_embeddings_and_output_weights")
    return not config.get("untie_embeddings_and_output_weights", False) if shared is None else shared


MEGATRON_LAYER = "decoder.layers.{}."
MEGATRON = Family(
    "megatron_gpt", "decoder", dict(
        width=Key("hidden_size"), layers=Key("num_layers", "num_hidden_layers"), heads=Key("num_attention_heads"), vocab=Key("padded_vocab_size", "vocab_size"),
        ffn=lambda c: c.get("ffn_hidden_size") or c.get("intermediate_size") or 4 * c["hidden_size"], context=Key("max_position_embeddings", "encoder_seq_length", default=2048),
        kv_heads=key("num_query_groups", 0), head_dim=key("kv_channels", 0), norm=lambda c: "rms" if megatron_rms(c) else "layer",
        eps=Key("norm_epsilon", "layernorm_epsilon", default=1e-5),
        positions=lambda c: "rope" if c.get("position_embedding_type") == "rope" else "learned",
        rope=lambda c: Rope(theta=float(megatron("rotary_base", default=10000.0)(c)),
        share=float(megatron("rotary_percent", "rotary_percentage", default=1.0)(c))),
        activation=lambda c: "silu" if megatron_gated(c) else "gelu", gated=megatron_gated,
        qkv_bias=lambda c: megatron_biased(c) or bool(c.get("add_qkv_bias")),
        o_bias=megatron_biased, mlp_bias=megatron_biased, tied=megatron_tied), {
        "tokens": "embedding.word_embeddings", "positions": "embedding.position_embeddings", "norm": "decoder.final_layernorm",
        "head": "output_layer",
        "layers.norm1": MEGATRON_LAYER + "input_layernorm", "layers.norm2": MEGATRON_LAYER + "pre_mlp_layernorm",
        "layers.norm1.scale": f"={MEGATRON_LAYER}self_attention.linear_qkv.layer_norm_weight|={MEGATRON_LAYER}input_layernorm.weight",
        "layers.norm1.bias": f"={MEGATRON_LAYER}self_attention.linear_qkv.layer_norm_bias|={MEGATRON_LAYER}input_layernorm.bias",
        "layers.norm2.scale": f"={MEGATRON_LAYER}mlp.linear_fc1.layer_norm_weight|={MEGATRON_LAYER}pre_mlp_layernorm.weight",
        "layers.norm2.bias": f"={MEGATRON_LAYER}mlp.linear_fc1.layer_norm_bias|={MEGATRON_LAYER}pre_mlp_layernorm.bias",
        "layers.q": MEGATRON_LAYER + "self_attention.linear_qkv#q/groups", "layers.k": MEGATRON_LAYER + "self_attention.linear_qkv#k/groups",
        "layers.v": MEGATRON_LAYER + "self_attention.linear_qkv#v/groups", "layers.o": MEGATRON_LAYER + "self_attention.linear_proj",
        "layers.gate": MEGATRON_LAYER + "mlp.linear_fc1#gate",
        "layers.up": MEGATRON_LAYER + "mlp.linear_fc1#up/gated", "layers.down": MEGATRON_LAYER + "mlp.linear_fc2",
    }, "model.", note="by Megatron-LM's or NeMo's own keys: learned or rotary positions, layer or RMS norm, GELU or SwiGLU",
    also=("group_query_attention", "seq_length", "make_vocab_size_divisible_by", "apply_query_key_layer_scaling", "attention_softmax_in_fp32",
          "bias_gelu_fusion", "bias_swiglu_fusion", "masked_softmax_fusion", "tensor_model_parallel_size", "pipeline_model_parallel_size",
          "sequence_parallel", "micro_batch_size", "global_batch_size", "attention_dropout", "params_dtype", "bf16", "fp16"))  # fmt: skip

LFM2 = LLAMA.like("lfm2", "short convolutions in most layers, attention in the others", {
    "norm": "model.embedding_norm", "layers.norm1": LAYER + "operator_norm", "layers.norm2": LAYER + "ffn_norm",
    "layers.gate": LAYER + "feed_forward.w1",
    "layers.up": LAYER + "feed_forward.w3", "layers.down": LAYER + "feed_forward.w2",
    "layers.o": LAYER + "self_attn.out_proj|" + LAYER + "conv.out_proj",
    "layers.q_norm": LAYER + "self_attn.q_layernorm", "layers.k_norm": LAYER + "self_attn.k_layernorm", "layers.conv": LAYER + "conv.conv",
    "layers.before": LAYER + "conv.in_proj#0/third", "layers.after": LAYER + "conv.in_proj#1/third",
    "layers.x": LAYER + "conv.in_proj#2/third"},
    qk_norm="head", qkv_bias=False, o_bias=False, mlp_bias=False, ffn=lfm_ffn, eps=Key("norm_eps", "block_norm_eps", default=1e-5),
    kernel=key("conv_L_cache", 3),
    rope=lambda c: rope_of(c, theta=1000000.0), tied=lambda c: Key("tie_embedding", "tie_word_embeddings", default=True)(c), activation="silu",
    forms=lfm_forms,
    also=("block_dim", "block_ff_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu",
    "block_use_xavier_init",
          "conv_dim", "conv_dim_out", "conv_use_xavier_init", "eos_token_id", "num_heads", "theta", "use_pos_enc", "tie_word_embeddings",
          "intermediate_size"))  # fmt: skip

# ---- the rows

DECODERS = [
    LLAMA,
    MISTRAL,
    MISTRAL.like("ministral", "mistral whose layers may each see a window or everything", window=0,
                 forms=sliding(lambda c, i: "sliding_attention" if window_of(c) else "full_attention")),
    MISTRAL.like("mixtral", "mistral with experts", MIXTRAL_NAMES, **MOE | dict(eps=key("rms_norm_eps", 1e-5)), also=("router_jitter_noise",)),
    LLAMA.like("qwen2", "LLaMA with biases on q, k, v", qkv_bias=True, o_bias=False, mlp_bias=False, **QWEN_WINDOW),
    LLAMA.like("qwen3", "LLaMA with a norm over each head's q and k", qk_norm="head", mlp_bias=False, head_dim=key("head_dim", 128), **QWEN_WINDOW),
    LLAMA.like("qwen2_moe", "qwen2 with experts and one for all, which a gate weighs", expert_names("mlp", shared="shared_expert"),
               **QWEN_WINDOW | MOE | dict(qkv_bias=key("qkv_bias", True), o_bias=False, mlp_bias=False, ffn=Key("moe_intermediate_size"),
               chosen=key("num_experts_per_tok", 4),
                                          shared_ffn=Key("shared_expert_intermediate_size"), shared_gate=True, forms=qwen_plain,
                                          also=("intermediate_size",),
                                          router=lambda c: Router(normed=bool(c.get("norm_topk_prob", False))))),
    LLAMA.like("qwen3_moe", "qwen3 with experts", expert_names("mlp"),
               **QWEN_WINDOW | MOE | dict(qk_norm="head", mlp_bias=False, head_dim=key("head_dim", 128), ffn=Key("moe_intermediate_size"),
               chosen=key("num_experts_per_tok", 8),
                                          forms=qwen_plain, also=("intermediate_size",), router=lambda c: Router(normed=bool(c.get("norm_topk_prob",
                                          False))))),
    GEMMA,
    GEMMA2,
    GEMMA2.like("gemma3_text", "Gemma 2 with a norm over each head's q and k, one layer of six without a window, and no caps", qk_norm="head",
    forms=gemma3_forms,
                rope=lambda c: rope_of(c, part="full_attention", theta=1000000.0), score_cap=lambda c: c.get("attn_logit_softcapping") or 0.0,
                logit_cap=lambda c: c.get("final_logit_softcapping") or 0.0),
    LLAMA.like("gpt_oss", "experts with clipped gates, every other layer a window, a score per head that no key has", {
                   "layers.router": LAYER + "mlp.router", "layers.sinks": "=" + LAYER + "self_attn.sinks",
                   "layers.gate.w": "=~" + LAYER + "mlp.experts.gate_up_proj#gate/odd",
                   "layers.up.w": "=~" + LAYER + "mlp.experts.gate_up_proj#up/odd",
                   "layers.gate.b": "=" + LAYER + "mlp.experts.gate_up_proj_bias#gate/odd",
                   "layers.up.b": "=" + LAYER + "mlp.experts.gate_up_proj_bias#up/odd",
                   "layers.down.w": "=~" + LAYER + "mlp.experts.down_proj", "layers.down.b": "=" + LAYER + "mlp.experts.down_proj_bias"},
               **MOE | dict(qkv_bias=key("attention_bias", True), o_bias=key("attention_bias", True), mlp_bias=True, head_dim=key("head_dim", 64),
               chosen=Key("num_experts_per_tok", "experts_per_token", default=4),
                            eps=key("rms_norm_eps", 1e-5), sinks=True, router=Router(bias=True), gate_limit=key("swiglu_limit", 7.0),
                            gate_slope=key("swiglu_alpha", 1.702),
                            forms=sliding(lambda c, i: "full_attention" if i % 2 else "sliding_attention"),
                            rope=lambda c: rope_of(c, theta=150000.0), also=("experts_per_token",))),
    DEEPSEEK,
    DEEPSEEK.like("deepseek_v2", "deepseek_v3 with softmax over experts", also=("mlp_bias",)),
    LLAMA.like("granite", "LLaMA with factors of embedding, scores, residual and logits", embed_scale=key("embedding_multiplier", 1.0),
               score_scale=key("attention_multiplier", 1.0), residual=key("residual_multiplier", 1.0),
               head_scale=lambda c: 1 / (c.get("logits_scaling") or 1.0)),
    LLAMA.like("phimoe", "layer norms, biases, experts chosen one after the other", MIXTRAL_NAMES,
               **MOE | dict(norm="layer", eps=key("rms_norm_eps", 1e-5), head_bias=key("lm_head_bias", False), window=window_of, mlp_bias=False,
                            rope=lambda c: rope_of(c, theta=1000000.0), router=lambda c: Router(kind="mixer",
                            jitter=c.get("router_jitter_noise", 0.01)))),
    COHERE,
    COHERE.like("cohere2", "cohere of which three layers of four see a window and only they turn", forms=cohere_forms),
    GLM,
    GLM.like("glm4", "glm with norms before and after", {
        "layers.norm1_after": LAYER + "post_self_attn_layernorm", "layers.norm2_after": LAYER + "post_mlp_layernorm"}, block="sandwich"),
    LLAMA.like("smollm3", "LLaMA of which every fourth layer has no positions", forms=smollm_forms, also=("max_window_layers",),
    rope=lambda c: rope_of(c, theta=2000000.0),
               tied=key("tie_word_embeddings", True)),
    LLAMA.like("hunyuan_v1_dense", "LLaMA with a norm over each head's q and k once they are turned", {
        "layers.q_norm": LAYER + "self_attn.query_layernorm", "layers.k_norm": LAYER + "self_attn.key_layernorm"}, qk_norm="after",
        rope=hunyuan_rope,
        mlp_bias=False, eps=key("rms_norm_eps", 1e-5)),
    LLAMA.like("hunyuan_v1_moe", "hunyuan with experts and one for all", {
        "layers.q_norm": LAYER + "self_attn.query_layernorm", "layers.k_norm": LAYER + "self_attn.key_layernorm"} | expert_names(
            "mlp", router="gate.wg", shared="shared_mlp"), qk_norm="after", rope=hunyuan_rope, mlp_bias=False, eps=key("rms_norm_eps", 1e-5),
        experts=Key("num_experts"), chosen=lambda c: c["moe_topk"] if isinstance(c["moe_topk"], int) else c["moe_topk"][0],
        shared_ffn=Key("intermediate_size")),
    LFM2,
    MAMBA,
    MAMBA.like("falcon_mamba", "mamba with norms of step, in and out", also=("mixer_rms_eps",)),
    MAMBA.like("mamba2", "a decaying state per head in attention's place, no MLP", state_names(MIXER), space=mamba2_space,
               also=("head_dim", "expand", "norm_before_gate", "rms_norm", "time_step_rank", "time_step_limit")),
    LLAMA.like("falcon_h1", "attention beside mamba2 in every layer, with factors of all that goes in and out", {
        "norm": "model.final_layernorm", "layers.norm2": LAYER + "pre_ff_layernorm", "layers.gate": LAYER + "feed_forward.gate_proj",
        "layers.up": LAYER + "feed_forward.up_proj", "layers.down": LAYER + "feed_forward.down_proj"} | state_names(LAYER + "mamba.", "state."),
        mixer="both", space=falcon_h1_space, embed_scale=key("embedding_multiplier", 1.0), head_scale=key("lm_head_multiplier", 1.0),
        eps=key("rms_norm_eps", 1e-5),
        score_scale=lambda c: (c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]) ** -0.5 * c.get("key_multiplier", 1.0),
        attention_scales=lambda c: (c.get("attention_in_multiplier", 1.0), c.get("attention_out_multiplier", 1.0),
        c.get("ssm_out_multiplier", 1.0)),
        mlp_scales=lambda c: tuple(c.get("mlp_multipliers") or (1.0, 1.0)), o_bias=key("projectors_bias", False),
        also=("mamba_d_head", "mamba_expand", "layer_types", "attn_layer_indices", "projectors_bias", "attention_bias")),
    LLAMA.like("arcee", "LLaMA with squared ReLU in place of a gate", gated=False, activation=key("hidden_act", "relu2"),
               eps=key("rms_norm_eps", 1e-5)),
    GEMMA.like("recurrent_gemma", "Griffin: a gated recurrence in two layers of three, attention over a window in the third", GRIFFIN_NAMES,
               head_dim=0, window=key("attention_window_size", 2048), o_bias=True, mlp_bias=True, ffn=lambda c: c["intermediate_size"] // 2,
               rope=lambda c: rope_of(c, share=0.5), recurrent=lambda c: c.get("lru_width") or c["hidden_size"], kernel=key("conv1d_width", 4),
               logit_cap=key("logits_soft_cap", 30.0), embed_scale=griffin_scale, forms=griffin_forms, also=("head_dim", "w_init_variance_scale", "final_w_init_variance_scale")),
    LLAMA.like("phi3", "LLaMA with q, k, v in one tensor, gate and up in another", qkv_bias=False, o_bias=False,
               mlp_bias=False, window=window_of, eps=key("rms_norm_eps", 1e-5), names=FUSED_QKV | FUSED_MLP),
    LLAMA.like("olmo2", "LLaMA whose norms are on what a block adds, and on all of q and k", block="normed",
               qk_norm="whole", mlp_bias=False, eps=key("rms_norm_eps", 1e-5), names={
                   "layers.norm1": "model.layers.{}.post_attention_layernorm",
                   "layers.norm2": "model.layers.{}.post_feedforward_layernorm"}),
    LLAMA.like("starcoder2", "LLaMA with layer norms, biases, a plain MLP", norm="layer", gated=False,
               eps=key("norm_epsilon", 1e-5), activation=key("hidden_act", "gelu_new"), qkv_bias=key("use_bias", True),
               o_bias=key("use_bias", True), mlp_bias=key("use_bias", True), window=window_of,
               tied=key("tie_word_embeddings", True), names={
                   "layers.up": "model.layers.{}.mlp.c_fc", "layers.down": "model.layers.{}.mlp.c_proj"}),
    LLAMA.like("phi", "parallel block with one norm, rotary positions on part of a head", norm="layer", gated=False,
               eps=key("layer_norm_eps", 1e-5), activation=key("hidden_act", "gelu_new"), qkv_bias=True, o_bias=True,
               mlp_bias=True, head_bias=True, block="parallel", norms=1, rope=lambda c: rope_of(c, share=0.5),
               qk_norm=lambda c: "head" if c.get("qk_layernorm") else "", names={
                   "norm": "model.final_layernorm", "layers.o": "model.layers.{}.self_attn.dense",
                   "layers.q_norm": "model.layers.{}.self_attn.q_layernorm", "layers.k_norm": "model.layers.{}.self_attn.k_layernorm",
                   "layers.up": "model.layers.{}.mlp.fc1", "layers.down": "model.layers.{}.mlp.fc2"}),
    GPT2,
    Family("gptj", "decoder", GPT2.values | dict(
        positions="rope", block="parallel", norms=1, qkv_bias=False, o_bias=False, head_bias=True, tied=key("tie_word_embeddings", False),
        rope=lambda c: Rope(share=(c.get("rotary_dim") or 64) / (c["n_embd"] // c["n_head"]), paired=True)), {
        "tokens": "transformer.wte", "norm": "transformer.ln_f", "head": "lm_head", "layers.norm1": "transformer.h.{}.ln_1",
        "layers.up": "transformer.h.{}.mlp.fc_in", "layers.down": "transformer.h.{}.mlp.fc_out", "layers.o": "transformer.h.{}.attn.out_proj"} | {
        f"layers.{n}": f"transformer.h.{{}}.attn.{n}_proj" for n in "qkv"}, "transformer.",
        note="gpt2 with attention beside the MLP, rotary pairs side by side",
        also=("n_ctx", "scale_attn_weights", "rotary")),
    Family("gpt_neo", "decoder", HF_SIZES | dict(
        layers=Key("num_layers", "num_hidden_layers"), heads=Key("num_heads", "num_attention_heads"),
        ffn=lambda c: c.get("intermediate_size") or 4 * c["hidden_size"], positions="learned", activation=key("activation_function", "gelu_new"),
        eps=key("layer_norm_epsilon", 1e-5), qkv_bias=False, score_scale=1.0, forms=neo_layers, tied=key("tie_word_embeddings", True)), {
        "tokens": "transformer.wte", "positions": "transformer.wpe", "norm": "transformer.ln_f", "head": "lm_head",
        "layers.norm1": "transformer.h.{}.ln_1", "layers.norm2": "transformer.h.{}.ln_2", "layers.o": "transformer.h.{}.attn.attention.out_proj",
        "layers.up": "transformer.h.{}.mlp.c_fc", "layers.down": "transformer.h.{}.mlp.c_proj"} | {
        f"layers.{n}": f"transformer.h.{{}}.attn.attention.{n}_proj" for n in "qkv"}, "transformer.",
        note="gpt2 with unscaled scores, every other layer a window", also=("attention_types", "intermediate_size")),
    Family("bloom", "decoder", dict(
        width=Key("hidden_size", "n_embed"), layers=Key("n_layer", "num_hidden_layers"), heads=Key("n_head", "num_attention_heads"),
        vocab=Key("vocab_size"),
        ffn=lambda c: c.get("n_inner") or 4 * Key("hidden_size", "n_embed")(c), positions="alibi", alibi_scaled=False, activation="gelu_new",
        eps=key("layer_norm_epsilon", 1e-5), embed_norm=True, tied=key("tie_word_embeddings", True)), {
        "tokens": "transformer.word_embeddings", "embed_norm": "transformer.word_embeddings_layernorm", "norm": "transformer.ln_f",
        "head": "lm_head",
        "layers.norm1": FALCON_LAYER + "input_layernorm", "layers.norm2": FALCON_LAYER + "post_attention_layernorm",
        "layers.o": FALCON_LAYER + "self_attention.dense", "layers.up": FALCON_LAYER + "mlp.dense_h_to_4h",
        "layers.down": FALCON_LAYER + "mlp.dense_4h_to_h"} | {
        f"layers.{n}": f"{FALCON_LAYER}self_attention.query_key_value#{n}/groups" for n in "qkv"}, "transformer.",
        note="ALiBi, a norm of the embedding", also=("seq_length", "n_embed", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id",
        "num_attention_heads",
                                                    "masked_softmax_fusion", "bias_dropout_fusion", "attention_softmax_in_fp32", "slow_but_exact")),
    Family("mpt", "decoder", dict(
        width=Key("d_model"), layers=Key("n_layers"), heads=Key("n_heads"), vocab=Key("vocab_size"),
        ffn=lambda c: int(c.get("expansion_ratio", 4) * c["d_model"]),
        norm="centred", eps=key("layer_norm_epsilon", 1e-5), positions=lambda c: "alibi" if c.part("attn_config").get("alibi", True) else "learned",
        context=key("max_seq_len", 2048), alibi_scaled=False, activation="gelu", qkv_bias=False, o_bias=False, mlp_bias=False,
        clip=lambda c: c.part("attn_config").get("clip_qkv") or 0.0,
        score_scale=mpt_scale, tied=key("tie_word_embeddings", True)), {
        "tokens": "transformer.wte", "norm": "transformer.norm_f", "head": "lm_head", "layers.norm1": "transformer.blocks.{}.norm_1",
        "layers.norm2": "transformer.blocks.{}.norm_2", "layers.o": "transformer.blocks.{}.attn.out_proj",
        "layers.up": "transformer.blocks.{}.ffn.up_proj", "layers.down": "transformer.blocks.{}.ffn.down_proj"} | {
        f"layers.{n}": f"transformer.blocks.{{}}.attn.Wqkv#{n}" for n in "qkv"}, "transformer.", note="ALiBi, no biases anywhere",
        also=("no_bias", "learned_pos_emb", "norm_type", "verbose", "embedding_fraction", "init_device", "logit_scale", "init_config",
        "use_pad_tok_in_ffn", "tokenizer_name")),
    MEGATRON,
    Family("opt", "decoder", HF_SIZES | dict(
        ffn=Key("ffn_dim"), positions="learned", position_offset=2, activation=key("activation_function", "relu"),
        block=lambda c: "pre" if c.get("do_layer_norm_before", True) else "post", embed=key("word_embed_proj_dim", 0),
        final_norm=lambda c: c.get("do_layer_norm_before", True) and not c.get("_remove_final_layer_norm", False),
        qkv_bias=key("enable_bias", True), o_bias=key("enable_bias", True), mlp_bias=key("enable_bias", True),
        tied=key("tie_word_embeddings", True)), {
        "tokens": "model.decoder.embed_tokens", "positions": "model.decoder.embed_positions",
        "norm": "model.decoder.final_layer_norm", "head": "lm_head",
        "embed_in": "model.decoder.project_in", "embed_out": "model.decoder.project_out",
        "layers.norm1": "model.decoder.layers.{}.self_attn_layer_norm", "layers.norm2": "model.decoder.layers.{}.final_layer_norm",
        "layers.q": "model.decoder.layers.{}.self_attn.q_proj", "layers.k": "model.decoder.layers.{}.self_attn.k_proj",
        "layers.v": "model.decoder.layers.{}.self_attn.v_proj", "layers.o": "model.decoder.layers.{}.self_attn.out_proj",
        "layers.up": "model.decoder.layers.{}.fc1", "layers.down": "model.decoder.layers.{}.fc2",
    }, "model.", note="learned positions from 2, ReLU; 350m: norm of the sum, narrower embedding", fixed=dict(layer_norm_elementwise_affine=True)),
    Family("xglm", "decoder", dict(
        width=Key("d_model", "hidden_size"), layers=Key("num_layers", "num_hidden_layers"), heads=Key("attention_heads", "num_attention_heads"),
        ffn=Key("ffn_dim", "intermediate_size"), vocab=Key("vocab_size"), context=key("max_position_embeddings", 2048), positions="waves", position_offset=2,
        activation=key("activation_function", "gelu"), tied=key("tie_word_embeddings", True),
        embed_scale=lambda c: Key("d_model", "hidden_size")(c) ** 0.5 if c.get("scale_embedding", True) else 1.0), {
        "tokens": "model.embed_tokens", "norm": "model.layer_norm", "head": "lm_head",
        "layers.norm1": LAYER + "self_attn_layer_norm", "layers.norm2": LAYER + "final_layer_norm",
        "layers.q": LAYER + "self_attn.q_proj", "layers.k": LAYER + "self_attn.k_proj", "layers.v": LAYER + "self_attn.v_proj",
        "layers.o": LAYER + "self_attn.out_proj", "layers.up": LAYER + "fc1", "layers.down": LAYER + "fc2",
    }, "model.", note="sines and cosines added as positions from 2, scaled embeddings, GELU", fixed=dict(add_cross_attention=False)),
    Family("gpt_neox", "decoder", HF_SIZES | dict(
        eps=key("layer_norm_eps", 1e-5), rope=lambda c: rope_of(c, share=0.25), activation=key("hidden_act", "gelu"),
        block=lambda c: "parallel" if c.get("use_parallel_residual", True) else "pre", qkv_bias=key("attention_bias", True),
        o_bias=key("attention_bias", True), tied=key("tie_word_embeddings", False)), {
        "tokens": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "head": "embed_out",
        "layers.norm1": NEOX_LAYER + "input_layernorm", "layers.norm2": NEOX_LAYER + "post_attention_layernorm",
        "layers.q": NEOX_LAYER + "attention.query_key_value#q/groups", "layers.k": NEOX_LAYER + "attention.query_key_value#k/groups",
        "layers.v": NEOX_LAYER + "attention.query_key_value#v/groups", "layers.o": NEOX_LAYER + "attention.dense",
        "layers.up": NEOX_LAYER + "mlp.dense_h_to_4h", "layers.down": NEOX_LAYER + "mlp.dense_4h_to_h",
    }, note="parallel block, rotary positions on a quarter of a head"),
    Family("falcon", "decoder", HF_SIZES | dict(
        ffn=lambda c: c.get("ffn_hidden_size") or c.get("intermediate_size") or 4 * c["hidden_size"], kv_heads=falcon_kv_heads, rope=rope_of,
        eps=key("layer_norm_epsilon", 1e-5), positions=lambda c: "alibi" if c.get("alibi") else "rope",
        activation=key("activation", "gelu"), block=lambda c: "parallel" if c.get("parallel_attn", True) else "pre",
        norms=falcon_norms, qkv_bias=key("bias", False), o_bias=key("bias", False), mlp_bias=key("bias", False),
        tied=key("tie_word_embeddings", True)), {
        "tokens": "transformer.word_embeddings", "norm": "transformer.ln_f", "head": "lm_head",
        "layers.norm1": FALCON_LAYER + "input_layernorm|" + FALCON_LAYER + "ln_attn",
        "layers.norm2": FALCON_LAYER + "post_attention_layernorm|" + FALCON_LAYER + "ln_mlp",
        "layers.q": FALCON_LAYER + "self_attention.query_key_value#q/groups", "layers.o": FALCON_LAYER + "self_attention.dense",
        "layers.k": FALCON_LAYER + "self_attention.query_key_value#k/groups",
        "layers.v": FALCON_LAYER + "self_attention.query_key_value#v/groups",
        "layers.up": FALCON_LAYER + "mlp.dense_h_to_4h", "layers.down": FALCON_LAYER + "mlp.dense_4h_to_h",
    }, "transformer.", note="parallel block, one or few key heads, rotary positions or ALiBi",
    also=("num_kv_heads", "ffn_hidden_size", "multi_query", "num_ln_in_parallel_attn")),
]  # fmt: skip
