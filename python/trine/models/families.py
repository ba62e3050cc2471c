"""The families: one row each says what differs, and what its weights are called. Reading needs no JAX.

A row's value is a constant, a `Key` of config.json, or a function of the configuration.
"""

from dataclasses import dataclass, field, replace

from trine.models.settings import Clip, ResNet, Rope, Transformer, TwoStacks, UNet

MISSING = object()


class ConfigError(ValueError):
    """A configuration that names something the zoo does not have, or lacks what a model needs."""


class Key:
    """The first of `names` that the configuration has and that is not null, else the default."""

    def __init__(self, *names, default=MISSING):
        self.names, self.default = names, default

    def __call__(self, config):
        for name in self.names:
            if config.get(name) is not None:
                return config[name]
        if self.default is MISSING:
            raise ConfigError(f"a configuration of {config.get('model_type', 'this kind')} needs \"{self.names[0]}\"")
        return self.default


def key(name, default):
    return Key(name, default=default)


@dataclass(frozen=True)
class Family:
    name: str
    kind: str  # decoder, encoder, seq2seq, vit, clip, resnet, unet
    values: dict = field(default_factory=dict)
    names: dict = field(default_factory=dict)  # parameter -> tensor of a safetensors file
    prefix: str = ""  # that some files leave out
    transposed: bool = True  # dense weights are stored [outputs, inputs]
    note: str = ""

    def like(self, name, note="", names=None, prefix=None, **values):
        return replace(self, name=name, note=note, values=self.values | values, names=self.names | (names or {}),
                       prefix=self.prefix if prefix is None else prefix)  # fmt: skip

    def settings(self, config):
        return READERS[self.kind](config, {k: v(config) if callable(v) else v for k, v in self.values.items()})


def rope_of(config):
    """Both spellings: `rope_parameters`, and `rope_theta` beside `rope_scaling`."""
    given = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    kind = given.get("rope_type") or given.get("type") or "default"
    kind = "longrope" if kind == "su" else "default" if kind == "dynamic" else kind
    if kind not in ("default", "linear", "llama3", "yarn", "longrope"):
        raise ConfigError(f'rope_type "{kind}" is not known; known are default, linear, dynamic, llama3, yarn, longrope')
    share = given.get("partial_rotary_factor", config.get("partial_rotary_factor", config.get("rotary_pct", 1.0)))
    context = config.get("max_position_embeddings", 0)
    original = given.get("original_max_position_embeddings") or config.get("original_max_position_embeddings") or context
    yarn = kind == "yarn"
    return Rope(
        theta=float(given.get("rope_theta") or config.get("rope_theta") or config.get("rotary_emb_base") or 10000.0),
        share=float(share),
        kind=kind,
        factor=float(given.get("factor") or (context / original if original else 1.0)),
        original=int(original),
        low=float(given.get("beta_slow", 1.0) if yarn else given.get("low_freq_factor", 1.0)),
        high=float(given.get("beta_fast", 32.0) if yarn else given.get("high_freq_factor", 4.0)),
        short=tuple(given.get("short_factor", ())),
        long=tuple(given.get("long_factor", ())),
        attention=float(given.get("attention_factor") or 0.0),
    )


def window_of(config):
    return config.get("sliding_window") or 0


# ---- decoders

HF_SIZES = dict(
    width=Key("hidden_size"), layers=Key("num_hidden_layers"), heads=Key("num_attention_heads"),
    ffn=Key("intermediate_size"), vocab=Key("vocab_size"), context=key("max_position_embeddings", 2048),
)  # fmt: skip
LLAMA_NAMES = {
    "tokens": "model.embed_tokens", "norm": "model.norm", "head": "lm_head",
    "layers.norm1": "model.layers.{}.input_layernorm", "layers.norm2": "model.layers.{}.post_attention_layernorm",
    "layers.q": "model.layers.{}.self_attn.q_proj", "layers.k": "model.layers.{}.self_attn.k_proj",
    "layers.v": "model.layers.{}.self_attn.v_proj", "layers.o": "model.layers.{}.self_attn.o_proj",
    "layers.q_norm": "model.layers.{}.self_attn.q_norm", "layers.k_norm": "model.layers.{}.self_attn.k_norm",
    "layers.gate": "model.layers.{}.mlp.gate_proj", "layers.up": "model.layers.{}.mlp.up_proj",
    "layers.down": "model.layers.{}.mlp.down_proj",
}  # fmt: skip
EXPERT_NAMES = {
    "layers.router": "model.layers.{}.block_sparse_moe.gate",
    "layers.gate": "model.layers.{}.block_sparse_moe.experts.{}.w1",
    "layers.up": "model.layers.{}.block_sparse_moe.experts.{}.w3",
    "layers.down": "model.layers.{}.block_sparse_moe.experts.{}.w2",
}
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
    return window_of(config) if config.get("use_sliding_window") else 0


def falcon_norms(config):
    if not config.get("parallel_attn", True):
        return 2
    two = 2 if config.get("new_decoder_architecture") else 1
    return config.get("num_ln_in_parallel_attn") or two


def falcon_kv_heads(config):
    if config.get("new_decoder_architecture"):
        return config.get("num_kv_heads") or config["num_attention_heads"]
    return 1 if config.get("multi_query", True) else config["num_attention_heads"]


def gelu_name(name):
    """`gelu_pytorch_tanh` and `gelu_new` are one function."""
    return {"gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new", "swish": "silu"}.get(name, name)


DECODERS = [
    LLAMA,
    MISTRAL,
    MISTRAL.like("mixtral", "mistral with experts", EXPERT_NAMES, experts=key("num_local_experts", 8),
                 chosen=key("num_experts_per_tok", 2), eps=key("rms_norm_eps", 1e-5)),
    LLAMA.like("qwen2", "LLaMA with biases on q, k, v", qkv_bias=True, o_bias=False, mlp_bias=False, window=qwen_window,
               window_from=key("max_window_layers", 28)),
    LLAMA.like("qwen3", "LLaMA with a norm over each head's q and k", qk_norm="head", mlp_bias=False, window=qwen_window,
               head_dim=key("head_dim", 128), window_from=key("max_window_layers", 28)),
    LLAMA.like("gemma", "LLaMA with wide heads, 1 + scale in norms, scaled embeddings, GeGLU", norm="rms1",
               head_dim=key("head_dim", 256), tied=key("tie_word_embeddings", True), mlp_bias=False,
               activation=Key("hidden_activation", "hidden_act", default="gelu_new"),
               embed_scale=lambda c: c["hidden_size"] ** 0.5),
    LLAMA.like("phi3", "LLaMA with q, k, v in one tensor, gate and up in another", qkv_bias=False, o_bias=False,
               mlp_bias=False, window=window_of, eps=key("rms_norm_eps", 1e-5), names={
                   "layers.q": "model.layers.{}.self_attn.qkv_proj#q", "layers.k": "model.layers.{}.self_attn.qkv_proj#k",
                   "layers.v": "model.layers.{}.self_attn.qkv_proj#v", "layers.gate": "model.layers.{}.mlp.gate_up_proj#gate",
                   "layers.up": "model.layers.{}.mlp.gate_up_proj#up"}),
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
               mlp_bias=True, head_bias=True, block="parallel", norms=1, rope=lambda c: rope_of({"partial_rotary_factor": 0.5} | c),
               qk_norm=lambda c: "head" if c.get("qk_layernorm") else "", names={
                   "norm": "model.final_layernorm", "layers.o": "model.layers.{}.self_attn.dense",
                   "layers.q_norm": "model.layers.{}.self_attn.q_layernorm", "layers.k_norm": "model.layers.{}.self_attn.k_layernorm",
                   "layers.up": "model.layers.{}.mlp.fc1", "layers.down": "model.layers.{}.mlp.fc2"}),
    Family("gpt2", "decoder", dict(
        width=Key("n_embd", "hidden_size"), layers=Key("n_layer", "num_hidden_layers"),
        heads=Key("n_head", "num_attention_heads"), context=Key("n_positions", "n_ctx", "max_position_embeddings", default=1024), vocab=Key("vocab_size"),
        ffn=lambda c: c.get("n_inner") or 4 * Key("n_embd", "hidden_size")(c), positions="learned",
        activation=key("activation_function", "gelu_new"), eps=key("layer_norm_epsilon", 1e-5),
        tied=key("tie_word_embeddings", True)), {
        "tokens": "transformer.wte", "positions": "transformer.wpe", "norm": "transformer.ln_f", "head": "lm_head",
        "layers.norm1": "transformer.h.{}.ln_1", "layers.norm2": "transformer.h.{}.ln_2",
        "layers.q": "transformer.h.{}.attn.c_attn#q", "layers.k": "transformer.h.{}.attn.c_attn#k",
        "layers.v": "transformer.h.{}.attn.c_attn#v", "layers.o": "transformer.h.{}.attn.c_proj",
        "layers.up": "transformer.h.{}.mlp.c_fc", "layers.down": "transformer.h.{}.mlp.c_proj",
    }, "transformer.", transposed=False, note="layer norm, learned positions, GELU"),
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
    }, "model.", note="learned positions from 2, ReLU; 350m: norm of the sum, narrower embedding"),
    Family("gpt_neox", "decoder", HF_SIZES | dict(
        eps=key("layer_norm_eps", 1e-5), rope=lambda c: rope_of({"rotary_pct": 0.25} | c), activation=key("hidden_act", "gelu"),
        block=lambda c: "parallel" if c.get("use_parallel_residual", True) else "pre", qkv_bias=key("attention_bias", True),
        o_bias=key("attention_bias", True), tied=key("tie_word_embeddings", False)), {
        "tokens": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "head": "embed_out",
        "layers.norm1": NEOX_LAYER + "input_layernorm", "layers.norm2": NEOX_LAYER + "post_attention_layernorm",
        "layers.q": NEOX_LAYER + "attention.query_key_value#q/groups", "layers.k": NEOX_LAYER + "attention.query_key_value#k/groups",
        "layers.v": NEOX_LAYER + "attention.query_key_value#v/groups", "layers.o": NEOX_LAYER + "attention.dense",
        "layers.up": NEOX_LAYER + "mlp.dense_h_to_4h", "layers.down": NEOX_LAYER + "mlp.dense_4h_to_h",
    }, note="parallel block, rotary positions on a quarter of a head"),
    Family("falcon", "decoder", HF_SIZES | dict(
        ffn=lambda c: c.get("ffn_hidden_size") or 4 * c["hidden_size"], kv_heads=falcon_kv_heads, rope=rope_of,
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
    }, "transformer.", note="parallel block, one or few key heads, rotary positions or ALiBi"),
]  # fmt: skip

# ---- encoders


def bert_names(model, layers="encoder.layer", query="attention.self.query", key_="attention.self.key",
               value="attention.self.value", out="attention.output.dense", norm1="attention.output.LayerNorm",
               up="intermediate.dense", down="output.dense", norm2="output.LayerNorm"):  # fmt: skip
    layer = f"{model}.{layers}.{{}}."
    return {
        "tokens": f"{model}.embeddings.word_embeddings", "positions": f"{model}.embeddings.position_embeddings",
        "types": f"{model}.embeddings.token_type_embeddings", "embed_norm": f"{model}.embeddings.LayerNorm",
        "pooler": f"{model}.pooler.dense", "classifier": "classifier",
        "layers.q": layer + query, "layers.k": layer + key_, "layers.v": layer + value, "layers.o": layer + out,
        "layers.norm1": layer + norm1, "layers.norm2": layer + norm2, "layers.up": layer + up, "layers.down": layer + down,
    }  # fmt: skip


def masked_names(dense, norm, bias):
    return {"masked.dense": dense, "masked.norm": norm, "masked.bias": "=" + bias}


DENSE_HEAD = {"pooler": "classifier.dense", "classifier": "classifier.out_proj"}
BERT = Family("bert", "encoder", HF_SIZES | dict(
    context=key("max_position_embeddings", 512), types=key("type_vocab_size", 2), positions="learned", causal=False,
    block="post", eps=key("layer_norm_eps", 1e-12), activation=key("hidden_act", "gelu"), embed_norm=True,
    final_norm=False), bert_names("bert") | masked_names(
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"), "bert.",
    note="norm of the sum, learned positions, GELU")  # fmt: skip
ENCODERS = [
    BERT,
    BERT.like("roberta", "BERT with positions that begin after the padding's, one kind of token",
              bert_names("roberta") | masked_names("lm_head.dense", "lm_head.layer_norm", "lm_head.bias") | DENSE_HEAD, "roberta.",
              position_offset=lambda c: Key("pad_token_id", default=1)(c) + 1, eps=key("layer_norm_eps", 1e-5),
              types=key("type_vocab_size", 1)),
    BERT.like("distilbert", "BERT without kinds of token", bert_names(
        "distilbert", "transformer.layer", "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
        "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm") | masked_names(
            "vocab_transform", "vocab_layer_norm", "vocab_projector.bias") | {"pooler": "pre_classifier"}, "distilbert.", width=Key("dim"),
        layers=Key("n_layers"), heads=Key("n_heads"), ffn=Key("hidden_dim"), eps=1e-12, types=0, pooler="relu",
        activation=key("activation", "gelu")),
    BERT.like("albert", "BERT whose layers share one set of weights, narrower embedding", bert_names(
        "albert", "encoder.albert_layer_groups.0.albert_layers", "attention.query", "attention.key", "attention.value",
        "attention.dense", "attention.LayerNorm", "ffn", "ffn_output", "full_layer_layer_norm") | masked_names(
            "predictions.dense", "predictions.LayerNorm", "predictions.bias") | {
            "embed_in": "albert.encoder.embedding_hidden_mapping_in", "pooler": "albert.pooler"}, "albert.", shared=True,
        embed=key("embedding_size", 128), activation=key("hidden_act", "gelu_new")),
    BERT.like("electra", "BERT with a narrower embedding", bert_names("electra") | masked_names(
        "generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias") | DENSE_HEAD | {
            "embed_in": "electra.embeddings_project"}, "electra.", embed=key("embedding_size", 128), pooler="gelu"),
]  # fmt: skip

# ---- the rest

VISION_VALUES = dict(width=Key("hidden_size"), layers=Key("num_hidden_layers"), heads=Key("num_attention_heads"),
                     ffn=Key("intermediate_size"), positions="learned", causal=False, patch=Key("patch_size"),
                     image=Key("image_size"), channels=key("num_channels", 3), head="")  # fmt: skip


def clip_names(side, tower):
    layer = f"{tower}.encoder.layers.{{}}."
    return {f"{side}.layers.{name}": layer + theirs for name, theirs in {
        "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.out_proj",
        "norm1": "layer_norm1", "norm2": "layer_norm2", "up": "mlp.fc1", "down": "mlp.fc2"}.items()}  # fmt: skip


def t5_names(side, mlp):
    block = f"{side}.block.{{}}.layer."
    names = {f"{side}.layers.{n}": f"{block}0.SelfAttention.{n}" for n in "qkvo"}
    names |= {f"{side}.layers.cross.{n}": f"{block}1.EncDecAttention.{n}" for n in "qkvo"}
    return names | {
        f"{side}.relative": f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias",
        f"{side}.norm": f"{side}.final_layer_norm", f"{side}.layers.norm1": f"{block}0.layer_norm",
        f"{side}.layers.norm_cross": f"{block}1.layer_norm", f"{side}.layers.norm2": f"{block}{mlp}.layer_norm",
        f"{side}.layers.up": f"{block}{mlp}.DenseReluDense.wi_1|{block}{mlp}.DenseReluDense.wi",
        f"{side}.layers.gate": f"{block}{mlp}.DenseReluDense.wi_0", f"{side}.layers.down": f"{block}{mlp}.DenseReluDense.wo",
    }  # fmt: skip


def activation_of_t5(config):
    """`relu`, or `gated-gelu`, which is the tanh form."""
    name = config.get("feed_forward_proj", "relu")
    return "gelu_new" if name == "gated-gelu" else name.removeprefix("gated-")


OTHERS = [
    Family("vit", "vit", VISION_VALUES | dict(
        block="pre", eps=key("layer_norm_eps", 1e-12), activation=key("hidden_act", "gelu"), qkv_bias=key("qkv_bias", True),
        head="classes", classes=lambda c: len(c.get("id2label") or ()) or c.get("num_labels") or 2), {
        "patches": "vit.embeddings.patch_embeddings.projection", "cls": "=vit.embeddings.cls_token",
        "positions": "=vit.embeddings.position_embeddings", "norm": "vit.layernorm", "classifier": "classifier",
        "layers.q": "vit.encoder.layer.{}.attention.attention.query", "layers.k": "vit.encoder.layer.{}.attention.attention.key",
        "layers.v": "vit.encoder.layer.{}.attention.attention.value", "layers.o": "vit.encoder.layer.{}.attention.output.dense",
        "layers.norm1": "vit.encoder.layer.{}.layernorm_before", "layers.norm2": "vit.encoder.layer.{}.layernorm_after",
        "layers.up": "vit.encoder.layer.{}.intermediate.dense", "layers.down": "vit.encoder.layer.{}.output.dense",
    }, "vit.", note="patches of an image as tokens"),
    Family("clip", "clip", {}, clip_names("text", "text_model") | clip_names("vision", "vision_model") | {
        "text.tokens": "text_model.embeddings.token_embedding", "text.positions": "text_model.embeddings.position_embedding",
        "text.norm": "text_model.final_layer_norm", "text.projection": "text_projection", "scale": "=logit_scale",
        "vision.patches": "vision_model.embeddings.patch_embedding", "vision.cls": "=vision_model.embeddings.class_embedding",
        "vision.positions": "vision_model.embeddings.position_embedding", "vision.norm": "vision_model.post_layernorm",
        "vision.embed_norm": "vision_model.pre_layrnorm", "vision.projection": "visual_projection",
    }, note="a text and an image tower into one space"),
    Family("t5", "seq2seq", dict(
        width=Key("d_model"), layers=Key("num_layers"), heads=Key("num_heads"), ffn=Key("d_ff"), head_dim=Key("d_kv"),
        vocab=Key("vocab_size"), norm="rms", eps=key("layer_norm_epsilon", 1e-6), positions="relative",
        activation=activation_of_t5, gated=lambda c: c.get("feed_forward_proj", "relu").startswith("gated-"),
        buckets=key("relative_attention_num_buckets", 32), distance=key("relative_attention_max_distance", 128),
        qkv_bias=False, o_bias=False, mlp_bias=False, score_scale=1.0, tied=key("tie_word_embeddings", True)),
        t5_names("encoder", 1) | t5_names("decoder", 2) | {"tokens": "shared", "head": "lm_head"},
        note="RMS norm, relative positions, unscaled scores; v1.1: gated MLP"),
    Family("resnet", "resnet", {}, {
        "stem.conv": "resnet.embedder.embedder.convolution", "stem.norm": "resnet.embedder.embedder.normalization",
        "stages.units.conv": "resnet.encoder.stages.{}.layers.{}.layer.{}.convolution",
        "stages.units.norm": "resnet.encoder.stages.{}.layers.{}.layer.{}.normalization",
        "stages.skip.conv": "resnet.encoder.stages.{}.layers.{}.shortcut.convolution",
        "stages.skip.norm": "resnet.encoder.stages.{}.layers.{}.shortcut.normalization", "classifier": "classifier.1"}, "resnet.", note="bottleneck or basic blocks, NHWC"),
    Family("stable-diffusion unet", "unet", {}, {}, note="Stable Diffusion 1, 2 and XL by diffusers' config.json"),
]  # fmt: skip

FAMILIES = {row.name: row for row in DECODERS + ENCODERS + OTHERS}


# ---- from values to settings


def transformer_of(config, values):
    values["activation"] = gelu_name(values["activation"])
    return Transformer(**values)


def encoder_of(config, values):
    kind = (config.get("architectures") or [""])[0]
    head = "masked" if kind.endswith(("ForMaskedLM", "ForPreTraining")) else "classes" if "ForSequence" in kind else ""
    classes = len(config.get("id2label") or ()) or config.get("num_labels") or 2
    return transformer_of(config, values | dict(head=config.get("head", head), classes=classes))


def seq2seq_of(config, values):
    values["tied"], tied = True, values["tied"]
    encoder = transformer_of(config, values | dict(causal=False, head=""))
    scaled = config.get("scale_decoder_outputs", tied)
    head = dict(tied=tied, head_scale=encoder.width**-0.5 if scaled else 1.0)
    decoder = replace(encoder, layers=config.get("num_decoder_layers") or encoder.layers, causal=True, head="lm", **head)
    return TwoStacks(encoder, decoder, config.get("decoder_start_token_id") or 0)


def clip_of(config, values):
    def tower(name, given, **more):
        full = given | (config.get(name) or {})
        common = dict(eps=full.get("layer_norm_eps", 1e-5), activation=full.get("hidden_act", "quick_gelu"), positions="learned",
                      block="pre", head="")  # fmt: skip
        return full, {k: v(full) if callable(v) else v for k, v in more.items()} | common

    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8,
             "vocab_size": 49408, "max_position_embeddings": 77}  # fmt: skip
    whole, text = tower("text_config", sizes, **HF_SIZES)
    pixels = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
              "image_size": 224, "patch_size": 32}  # fmt: skip
    _, vision = tower("vision_config", pixels, **VISION_VALUES)
    vision |= dict(embed_norm=True, patch_bias=False)
    return Clip(transformer_of(config, text | dict(causal=True)), transformer_of(config, vision),
                config.get("projection_dim", 512), whole.get("eos_token_id", 2))  # fmt: skip


def resnet_of(config, values):
    return ResNet(
        channels=config.get("num_channels", 3), stem=config.get("embedding_size", 64),
        widths=tuple(config.get("hidden_sizes", (256, 512, 1024, 2048))), depths=tuple(config.get("depths", (3, 4, 6, 3))),
        bottleneck=config.get("layer_type", "bottleneck") == "bottleneck", activation=config.get("hidden_act", "relu"),
        shrink_first=config.get("downsample_in_first_stage", False), shrink_early=config.get("downsample_in_bottleneck", False),
        classes=len(config.get("id2label") or ()) or config.get("num_labels") or 1000,
    )  # fmt: skip


def per_level(value, levels):
    return tuple(value) if isinstance(value, list | tuple) else (value,) * levels


def unet_of(config, values):
    widths = tuple(config.get("block_out_channels", (320, 640, 1280, 1280)))
    levels = len(widths)
    for name in ("down_block_types", "up_block_types"):
        known = {"CrossAttnDownBlock2D", "DownBlock2D", "UpBlock2D", "CrossAttnUpBlock2D"}
        if unknown := set(config.get(name, ())) - known:
            raise ConfigError(f"{name} has {sorted(unknown)}; known are {sorted(known)}")
    down = config.get("down_block_types", ["CrossAttnDownBlock2D"] * (levels - 1) + ["DownBlock2D"])
    up = config.get("up_block_types", ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * (levels - 1))
    added = config.get("addition_embed_type") == "text_time"
    return UNet(
        channels=config.get("in_channels", 4), outputs=config.get("out_channels", 4), widths=widths,
        down=tuple("CrossAttn" in kind for kind in down), up=tuple("CrossAttn" in kind for kind in up),
        depth=config.get("layers_per_block", 2),
        # Called a head's dim, and read as the number of heads, by the maker too.
        heads=per_level(config.get("num_attention_heads") or config.get("attention_head_dim", 8), levels),
        attentions=per_level(config.get("transformer_layers_per_block", 1), levels),
        text=config.get("cross_attention_dim", 1280), linear=bool(config.get("use_linear_projection", False)),
        middle=config.get("mid_block_type", "UNetMidBlock2DCrossAttn") is not None, groups=config.get("norm_num_groups", 32),
        eps=config.get("norm_eps", 1e-5), size=config.get("sample_size") or 64, activation=config.get("act_fn", "silu"),
        added=config.get("projection_class_embeddings_input_dim", 0) if added else 0,
        added_time=config.get("addition_time_embed_dim") or 256, flip=config.get("flip_sin_to_cos", True),
        shift=config.get("freq_shift", 0),
    )  # fmt: skip


READERS = {"decoder": transformer_of, "encoder": encoder_of, "seq2seq": seq2seq_of, "vit": transformer_of, "clip": clip_of,
           "resnet": resnet_of, "unet": unet_of}  # fmt: skip


def family_of(config):
    name = config.get("model_type") or {"UNet2DConditionModel": "stable-diffusion unet"}.get(config.get("_class_name"))
    if name not in FAMILIES:
        raise ConfigError(f'model_type "{name}" is not in the zoo; there are {", ".join(sorted(FAMILIES))}')
    return FAMILIES[name]
