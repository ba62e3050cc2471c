"""More decoders without experts, one row each: what differs from the row it is like. Needs no JAX."""

from dataclasses import replace

from trine.models.decoder_rows import DEEPSEEK_NAMES, GEMMA2, GPT2, HF_SIZES, LAYER, LLAMA, SANDWICH_NAMES, deepseek_latent
from trine.models.rows import Family, Key, forms_of, key, layer_types, rope_of, sliding, window_of
from trine.models.settings import Rope

NORMED_NAMES = {"layers.norm1": LAYER + "post_attention_layernorm", "layers.norm2": LAYER + "post_feedforward_layernorm"}


def three_of_four(config, i):
    return "sliding_attention" if (i + 1) % 4 else "full_attention"


def olmo3_forms(config):
    """Layers with a window keep the positions of the first training."""
    full = rope_of(config, part="full_attention", theta=500000.0)
    near = rope_of(config, part="sliding_attention", theta=500000.0)
    if not config.part("rope_parameters").values.get("sliding_attention"):
        near = Rope(theta=full.theta)
    types = layer_types(config, lambda i: three_of_four(config, i))
    return forms_of(types, {"sliding_attention": {"window": window_of(config), "rope": near}, "full_attention": {"rope": full}})


def exaone_forms(config):
    """Where some layers see a window, the others have no positions."""
    window, pattern = window_of(config), config.get("sliding_window_pattern", 4)
    if isinstance(pattern, str):
        kinds = [pattern[i % len(pattern)] == "L" for i in range(config["num_hidden_layers"] - 1)] + [False]
    else:
        kinds = [bool(pattern and (i + 1) % pattern) for i in range(config["num_hidden_layers"])]
    types = layer_types(config, lambda i: "sliding_attention" if window and kinds[i] else "full_attention")
    far = {"positions": "none"} if window else {}
    return forms_of(types, {"sliding_attention": {"window": window}, "full_attention": far})


def use_bias(config):
    return bool(config.get("use_bias", False))


def by_depth(config):
    """A factor of what a block adds, by how many there are."""
    given = config.get("scale_depth", 1.4)
    return 1.0 if given is None else given / config["num_hidden_layers"] ** 0.5


MLA = LLAMA.like(
    "youtu", "deepseek_v3 without experts", DEEPSEEK_NAMES, mixer="latent", latent=deepseek_latent, head_dim=0, kv_heads=0, mlp_bias=False,
    rope=lambda c: rope_of(c, paired=c.get("rope_interleave", True) is not False, theta=1600000.0),
    also=("num_key_value_heads", "head_dim", "qk_head_dim", "embedding_initializer_range"))  # fmt: skip
STABLE_RESIDUAL = dict(
    block=lambda c: "parallel" if c.get("use_parallel_residual", False) else "pre",
    norms=lambda c: 1 if c.get("use_parallel_residual", False) else 2)  # fmt: skip
BIOGPT_LAYER = "biogpt.layers.{}."
OPENAI_LAYER = "transformer.h.{}."

DENSE = [
    LLAMA.like("olmo", "LLaMA whose norms have no weights, with limits of q, k and v", norm="plain", eps=1e-5, mlp_bias=False,
               clip=key("clip_qkv", 0.0)),
    LLAMA.like("olmo3", "olmo2 of which three layers of four see a window", NORMED_NAMES, block="normed", qk_norm="whole", mlp_bias=False,
               eps=key("rms_norm_eps", 1e-5), forms=olmo3_forms, rope=Rope()),
    LLAMA.like("exaone4", "norms on what a block adds and over each head's q and k; layers without a window have no positions", NORMED_NAMES,
               block="normed", qk_norm="head", qkv_bias=False, o_bias=False, mlp_bias=False, eps=key("rms_norm_eps", 1e-5), forms=exaone_forms,
               also=("sliding_window", "sliding_window_pattern")),
    LLAMA.like("cwm", "LLaMA of which three layers of four see a window", qkv_bias=False, o_bias=False,
               rope=lambda c: rope_of(c, theta=1000000.0),
               forms=sliding(lambda c, i: "sliding_attention" if i % 4 else "full_attention")),
    LLAMA.like("ernie4_5", "LLaMA with rotary pairs side by side", qkv_bias=use_bias, o_bias=use_bias, mlp_bias=use_bias,
               eps=key("rms_norm_eps", 1e-5), tied=key("tie_word_embeddings", True), head_dim=key("head_dim", 128),
               rope=lambda c: rope_of(c, paired=True, theta=500000.0)),
    LLAMA.like("helium", "LLaMA with rotary pairs side by side", o_bias=False, eps=key("rms_norm_eps", 1e-8), head_dim=key("head_dim", 128),
               rope=lambda c: rope_of(c, paired=True, theta=100000.0)),
    LLAMA.like("seed_oss", "LLaMA with biases on q, k, v", qkv_bias=key("attention_bias", True), o_bias=key("attention_out_bias", False),
               head_dim=key("head_dim", 128)),
    LLAMA.like("jais2", "LLaMA with layer norms, biases and squared ReLU in place of a gate", norm="layer", gated=False,
               activation=key("hidden_act", "relu2"), eps=key("layer_norm_eps", 1e-5), qkv_bias=key("attention_bias", True),
               o_bias=key("attention_bias", True), mlp_bias=key("mlp_bias", True)),
    LLAMA.like("nemotron", "layer norms of 1 + scale, squared ReLU, half of a head turned", norm="layer1", gated=False,
               activation=key("hidden_act", "relu2"), eps=key("norm_eps", 1e-5), rope=lambda c: rope_of(c, share=0.5)),
    LLAMA.like("apertus", "LLaMA with xIELU, whose two numbers are learned, in place of a gate", {
                   "layers.norm1": LAYER + "attention_layernorm", "layers.norm2": LAYER + "feedforward_layernorm",
                   "layers.bend_up": "=" + LAYER + "mlp.act_fn.alpha_p", "layers.bend_down": "=" + LAYER + "mlp.act_fn.alpha_n"},
               gated=False, qk_norm="head", activation=key("hidden_act", "xielu"), eps=key("rms_norm_eps", 1e-5), mlp_bias=False,
               rope=lambda c: rope_of(c, theta=12000000.0)),
    LLAMA.like("stablelm", "LLaMA with layer norms, a quarter of a head turned", norm="layer", eps=key("layer_norm_eps", 1e-5),
               qkv_bias=key("use_qkv_bias", False), o_bias=False, mlp_bias=False, rope=lambda c: rope_of(c, share=0.25),
               fixed=dict(qk_layernorm=False), **STABLE_RESIDUAL),
    LLAMA.like("persimmon", "layer norms over all and over each head's q and k, squared ReLU, half of a head turned", {
                   "norm": "model.final_layernorm", "layers.o": LAYER + "self_attn.dense", "layers.q_norm": LAYER + "self_attn.q_layernorm",
                   "layers.k_norm": LAYER + "self_attn.k_layernorm", "layers.up": LAYER + "mlp.dense_h_to_4h",
                   "layers.down": LAYER + "mlp.dense_4h_to_h",
                   **{f"layers.{n}": f"{LAYER}self_attn.query_key_value#{n}/groups" for n in "qkv"}},
               norm="layer", gated=False, activation=key("hidden_act", "relu2"), eps=key("layer_norm_eps", 1e-5), qkv_bias=True, o_bias=True,
               mlp_bias=True, kv_heads=0, qk_norm=lambda c: "head" if c.get("qk_layernorm", True) else "",
               rope=lambda c: rope_of(c, share=0.5, theta=25000.0), also=("num_key_value_heads",)),
    LLAMA.like("hyperclovax", "granite with norms after what a block adds as well", SANDWICH_NAMES | {
                   "layers.norm1_after": LAYER + "post_norm1", "layers.norm2": LAYER + "post_attention_layernorm",
                   "layers.norm2_after": LAYER + "post_norm2"},
               embed_scale=key("embedding_multiplier", 1.0), residual=key("residual_multiplier", 1.0),
               score_scale=key("attention_multiplier", 0.0), head_scale=key("logits_scaling", 1.0),
               block=lambda c: "sandwich" if c.get("use_post_norm", True) else "pre"),
    GEMMA2.like("vaultgemma", "Gemma 2 without norms after what a block adds", block="pre"),
    MLA,
    MLA.like("minicpm3", "keys and values of one narrow vector per token; factors of embedding, residual and logits",
             rope=lambda c: rope_of(c), tied=key("tie_word_embeddings", True), eps=key("rms_norm_eps", 1e-5), embed_scale=key("scale_emb", 12),
             residual=by_depth, head_scale=lambda c: (Key("dim_model_base", default=256)(c) / c["hidden_size"])),
    replace(GPT2.like("gpt_bigcode", "gpt2 with one key and value for all heads", {
                f"layers.{n}": f"transformer.h.{{}}.attn.c_attn#{n}/groups" for n in "qkv"},
                kv_heads=lambda c: 1 if c.get("multi_query", True) else 0,
                score_scale=lambda c: 0.0 if c.get("scale_attn_weights", True) else 1.0,
                also=("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "validate_runner_input",
                      "pre_allocate_kv_cache", "max_sequence_length", "max_batch_size", "pad_key_length", "num_key_value_heads")),
            transposed=True),
    Family("codegen", "decoder", GPT2.values | dict(
        positions="rope", block="parallel", norms=1, qkv_bias=False, o_bias=False, head_bias=True, tied=key("tie_word_embeddings", False),
        rope=lambda c: Rope(share=(c.get("rotary_dim") or 64) / (c["n_embd"] // c["n_head"]), paired=True)), {
        "tokens": "transformer.wte", "norm": "transformer.ln_f", "head": "lm_head", "layers.norm1": "transformer.h.{}.ln_1",
        "layers.up": "transformer.h.{}.mlp.fc_in", "layers.down": "transformer.h.{}.mlp.fc_out", "layers.o": "transformer.h.{}.attn.out_proj"} | {
        f"layers.{n}": f"transformer.h.{{}}.attn.qkv_proj#{n}/quarters" for n in "qkv"}, "transformer.",
        note="gptj whose q, v and k lie together in four parts", also=("n_ctx", "scale_attn_weights", "gradient_checkpointing")),
    Family("biogpt", "decoder", HF_SIZES | dict(
        context=key("max_position_embeddings", 1024), positions="learned", position_offset=2, activation=key("hidden_act", "gelu"),
        eps=key("layer_norm_eps", 1e-12), tied=key("tie_word_embeddings", True),
        embed_scale=lambda c: c["hidden_size"] ** 0.5 if c.get("scale_embedding", True) else 1.0), {
        "tokens": "biogpt.embed_tokens", "positions": "biogpt.embed_positions", "norm": "biogpt.layer_norm", "head": "output_projection",
        "layers.norm1": BIOGPT_LAYER + "self_attn_layer_norm", "layers.norm2": BIOGPT_LAYER + "final_layer_norm",
        "layers.o": BIOGPT_LAYER + "self_attn.out_proj", "layers.up": BIOGPT_LAYER + "fc1", "layers.down": BIOGPT_LAYER + "fc2"} | {
        f"layers.{n}": f"{BIOGPT_LAYER}self_attn.{n}_proj" for n in "qkv"}, "biogpt.",
        note="learned positions from 2, scaled embeddings, GELU", fixed=dict(add_cross_attention=False)),
    Family("openai-gpt", "decoder", GPT2.values | dict(
        block="post", final_norm=False, activation=lambda c: {"gelu": "gelu_new"}.get(c.get("afn", "gelu"), c.get("afn", "gelu"))), {
        "tokens": "transformer.tokens_embed", "positions": "transformer.positions_embed", "head": "lm_head",
        "layers.norm1": OPENAI_LAYER + "ln_1", "layers.norm2": OPENAI_LAYER + "ln_2", "layers.o": OPENAI_LAYER + "attn.c_proj",
        "layers.up": OPENAI_LAYER + "mlp.c_fc", "layers.down": OPENAI_LAYER + "mlp.c_proj"} | {
        f"layers.{n}": f"{OPENAI_LAYER}attn.c_attn#{n}" for n in "qkv"}, "transformer.", transposed=False,
        note="the first GPT: norm of the sum", also=("n_ctx", "predict_special_tokens")),
]  # fmt: skip
