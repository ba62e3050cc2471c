"""An encoder that reads and a decoder that writes, one row each. Needs no JAX."""

from dataclasses import replace

from trine.models.reading import ConfigError, FileError
from trine.models.rows import Family, Key, key, transformer_of
from trine.models.settings import Speech, TwoStacks


def seq2seq_of(config, values):
    values["tied"], tied = True, values["tied"]
    encoder = transformer_of(config, values | dict(causal=False, head=""))
    scaled = config.get("scale_decoder_outputs", tied)
    head = dict(tied=tied, head_scale=encoder.width**-0.5 if scaled else 1.0)
    decoder = replace(encoder, layers=config.get("num_decoder_layers") or encoder.layers, causal=True, head="lm", **head)
    return TwoStacks(encoder, decoder, config.get("decoder_start_token_id") or 0)


def bart_of(config, values):
    """Both stacks by their own keys; sound where the configuration counts its bands."""
    bands = config.get("num_mel_bins") or 0
    sides = []
    for side in ("encoder", "decoder"):
        own = {"layers": config[f"{side}_layers"], "heads": config[f"{side}_attention_heads"], "ffn": config[f"{side}_ffn_dim"]}
        if bands:
            own["context"] = config["max_source_positions" if side == "encoder" else "max_target_positions"]
            own["embed_scale"] = 1.0  # whatever scale_embedding says, as its maker has it
        sides.append(transformer_of(config, values | own | dict(causal=side == "decoder", head="lm" if side == "decoder" else "")))
    tied = config.get("tie_word_embeddings", True)
    return TwoStacks(sides[0], replace(sides[1], tied=tied), config.get("decoder_start_token_id") or 0, bands,
        values["positions"] == "learned" and not bands)


def bart_names(side):
    layer = f"model.{side}.layers.{{}}."
    names = {"norm1": "self_attn_layer_norm", "norm2": "final_layer_norm", "norm_cross": "encoder_attn_layer_norm", "up": "fc1", "down": "fc2"}
    for ours, theirs in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
        names |= {ours: f"self_attn.{theirs}", f"cross.{ours}": f"encoder_attn.{theirs}"}
    made = {f"{side}.layers.{ours}": layer + theirs for ours, theirs in names.items()}
    return made | {f"{side}.positions": f"model.{side}.embed_positions", f"{side}.embed_norm": f"model.{side}.layernorm_embedding",
                   f"{side}.norm": f"model.{side}.layer_norm"}  # fmt: skip


BART = Family("bart", "seq2seq", dict(
    width=Key("d_model"), layers=0, heads=1, ffn=0, vocab=Key("vocab_size"), context=key("max_position_embeddings", 1024), positions="learned",
    position_offset=2, activation=key("activation_function", "gelu"),
    embed_scale=lambda c: c["d_model"] ** 0.5 if c.get("scale_embedding") else 1.0,
    block="post", embed_norm=True, final_norm=False), bart_names("encoder") | bart_names("decoder") | {
    "tokens": "model.shared|model.decoder.embed_tokens|model.encoder.embed_tokens", "head": "lm_head|proj_out", "logit_bias": "=final_logits_bias"},
    "model.",
    note="learned positions, norm of the sum, GELU", read=bart_of, also=("num_hidden_layers", "normalize_before", "normalize_embedding",
    "add_final_layer_norm",
    "add_bias_logits", "classif_dropout", "extra_pos_embeddings", "static_position_embeddings", "force_bos_token_to_be_generated",
    "max_position_embeddings"))  # fmt: skip


def speech_of(config, values):
    stable = bool(config.get("do_stable_layer_norm", False))
    for name in ("add_adapter", "adapter_attn_dim", "conv_pos_batch_norm"):
        if config.get(name):
            raise ConfigError(f'"{name}" of {config.kind()} is not in the zoo')
    if config.get("feat_proj_layer_norm") is False:
        raise ConfigError('"feat_proj_layer_norm" false is not in the zoo')
    letters = any("ForCTC" in name for name in config.get("architectures") or ())
    return Speech(
        transformer_of(config, values | dict(block="pre" if stable else "post")), tuple(config.get("conv_dim", (512,) * 7)),
        tuple(config.get("conv_kernel", (10, 3, 3, 3, 3, 2, 2))), tuple(config.get("conv_stride", (5, 2, 2, 2, 2, 2, 2))),
        config.get("feat_extract_norm", "group"), bool(config.get("conv_bias", False)), config.get("feat_extract_activation", "gelu"),
        config.get("num_conv_pos_embeddings", 128), config.get("num_conv_pos_embedding_groups", 16), config.get("vocab_size", 32) if letters else 0,
    )  # fmt: skip


def without_norm(name):
    """The kernel that a file holds as a direction and a length per position, under either of its two spellings."""
    def made(source):
        for length, direction in ((".parametrizations.weight.original0", ".parametrizations.weight.original1"), (".weight_g", ".weight_v")):
            for start in (name, name.partition(".")[2]):
                if start + length in source:
                    g, v = source[start + length].astype("float32"), source[start + direction].astype("float32")
                    return (g * v / (v * v).sum((0, 1), keepdims=True) ** 0.5).transpose(2, 1, 0)
        raise FileError(f"no tensor {name}.weight_g or {name}.parametrizations.weight.original0 in the file")

    return made


def speech_names(model):
    layer = f"{model}.encoder.layers.{{}}."
    conv = f"{model}.feature_extractor.conv_layers.{{}}."
    names = {"q": "attention.q_proj", "k": "attention.k_proj", "v": "attention.v_proj", "o": "attention.out_proj", "norm1": "layer_norm",
             "norm2": "final_layer_norm", "up": "feed_forward.intermediate_dense", "down": "feed_forward.output_dense"}  # fmt: skip
    return {f"layers.{ours}": layer + theirs for ours, theirs in names.items()} | {
        "stem.conv": conv + "conv", "stem.norm": conv + "layer_norm", "into_norm": f"{model}.feature_projection.layer_norm",
        "into": f"{model}.feature_projection.projection", "norm": f"{model}.encoder.layer_norm", "head": "lm_head",
        "positions.w": without_norm(f"{model}.encoder.pos_conv_embed.conv"),
        "positions.b": f"={model}.encoder.pos_conv_embed.conv.bias|=encoder.pos_conv_embed.conv.bias"}  # fmt: skip


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


SPEECH = Family("wav2vec2", "speech", dict(
    width=Key("hidden_size"), layers=Key("num_hidden_layers"), heads=Key("num_attention_heads"), ffn=Key("intermediate_size"), positions="none",
    causal=False,
    eps=key("layer_norm_eps", 1e-5), activation=key("hidden_act", "gelu"), head=""), speech_names("wav2vec2"), "wav2vec2.",
    note="convolutions over a wave, then an encoder",
    read=speech_of, also=("num_feat_extract_layers", "adapter_kernel_size", "adapter_stride", "num_adapter_layers", "output_hidden_size",
    "num_codevectors_per_group", "num_codevector_groups",
    "codevector_dim", "proj_codevector_dim", "vocab_size", "feat_proj_layer_norm", "gradient_checkpointing", "tokenizer_class"))  # fmt: skip
PAIRS = [
    Family("t5", "seq2seq", dict(
        width=Key("d_model"), layers=Key("num_layers"), heads=Key("num_heads"), ffn=Key("d_ff"), head_dim=Key("d_kv"),
        vocab=Key("vocab_size"), norm="rms", eps=key("layer_norm_epsilon", 1e-6), positions="relative",
        activation=activation_of_t5, gated=lambda c: c.get("feed_forward_proj", "relu").startswith("gated-"),
        buckets=key("relative_attention_num_buckets", 32), distance=key("relative_attention_max_distance", 128),
        qkv_bias=False, o_bias=False, mlp_bias=False, score_scale=1.0, tied=key("tie_word_embeddings", True)),
        t5_names("encoder", 1) | t5_names("decoder", 2) | {"tokens": "shared", "head": "lm_head"},
        note="RMS norm, relative positions, unscaled scores; v1.1: gated MLP", read=seq2seq_of,
        also=("dense_act_fn", "is_gated_act", "n_positions")),
    BART,
    BART.like("mbart", "bart with norms before, and after all layers", block="pre", final_norm=True),
    BART.like("whisper", "reads sound by two convolutions, writes text; no bias on keys",
    {"encoder.conv1": "model.encoder.conv1", "encoder.conv2": "model.encoder.conv2"},
              block="pre", final_norm=True, embed_norm=False, position_offset=0, k_bias=False,
              also=("max_length", "alignment_heads", "lang_to_id", "task_to_id",
              "is_multilingual", "no_timestamps_token_id")),
    SPEECH,
    SPEECH.like("hubert", "wav2vec 2.0 trained otherwise", speech_names("hubert"), "hubert."),
]  # fmt: skip
