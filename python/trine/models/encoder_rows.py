"""Encoders of text, one row each. Needs no JAX."""

from trine.models.decoder_rows import HF_SIZES
from trine.models.reading import ConfigError
from trine.models.rows import Family, Key, forms_of, key, layer_types, rope_of, transformer_of
from trine.models.settings import Distances, Perceiver


def modern_of(config, values):
    """Its classes go through the dense layer and the norm of its masked head, which this zoo's do not."""
    made = encoder_of(config, values)
    if made.head == "classes":
        raise ConfigError("ModernBERT for classes is not in the zoo; the masked one and the states are")
    return made


def encoder_of(config, values):
    kind = (config.get("architectures") or [""])[0]
    head = "masked" if kind.endswith(("ForMaskedLM", "ForPreTraining")) else "classes" if "ForSequence" in kind else ""
    classes = len(config.get("id2label") or ()) or config.get("num_labels") or 2
    head = config.get("head", head)
    if not config.get("tie_word_embeddings", True) and head == "masked":
        raise ConfigError(f"{config.kind()} with a masked head whose table is not the embedding's is not in the zoo")
    return transformer_of(config, values | dict(head=head, classes=classes))


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
    note="norm of the sum, learned positions, GELU", read=encoder_of, fixed=dict(position_embedding_type="absolute"))  # fmt: skip


def deberta_distances(config):
    """Version 2 and 3 share projections and put far distances into buckets; the first has its own, and no buckets."""
    old = config.kind() == "deberta"
    if not config.get("relative_attention", False):
        raise ConfigError("a DeBERTa without relative_attention is not in the zoo")
    for name in ("conv_kernel_size", "talking_head"):
        if config.get(name):
            raise ConfigError(f'a DeBERTa with "{name}" is not in the zoo')
    furthest = config.get("max_relative_positions", -1)
    furthest = furthest if furthest > 0 else config["max_position_embeddings"]
    buckets = max(0, config.get("position_buckets", -1)) if not old else 0
    kinds = config.get("pos_att_type") or ()
    kinds = tuple(kinds.lower().split("|")) if isinstance(kinds, str) else tuple(kinds)
    shared = bool(config.get("share_att_key", False)) and not old
    normed = "layer_norm" in (config.get("norm_rel_ebd") or "none")
    return Distances(2 * (buckets or furthest), kinds, shared, buckets, furthest, normed, not old)


PERCEIVERS = {  # of a class: how it sees, and the width of what it sees
    "PerceiverForMaskedLM": ("", None), "PerceiverForImageClassificationConvProcessing": ("conv", 322),
    "PerceiverForImageClassificationFourier": ("pixels", 261), "PerceiverForImageClassificationLearned": ("learned", 512),
}  # fmt: skip


def perceiver_of(config, values):
    kind = (config.get("architectures") or ["PerceiverForMaskedLM"])[0]
    if kind not in PERCEIVERS:
        raise ConfigError(f"{kind} is not in the zoo; there are {', '.join(PERCEIVERS)}")
    sees, seen = PERCEIVERS[kind]
    width, latent_width = config.get("d_model", 768), config.get("d_latents", 1280)
    width = seen or width
    labels = config.get("id2label")
    classes = len(labels) if isinstance(labels, dict) or hasattr(labels, "items") else config.get("num_labels", 2)
    keys, values, shape = config.get("qk_channels"), config.get("v_channels"), config.get("cross_attention_shape_for_attention", "kv")
    cross = keys or (latent_width if shape == "q" else width)
    return Perceiver(
        config.get("vocab_size", 262), config.get("max_position_embeddings", 2048), width, config.get("num_latents", 256), latent_width,
        config.get("num_blocks", 1),
        config.get("num_self_attends_per_block", 26), config.get("num_self_attention_heads", 8), config.get("num_cross_attention_heads", 8),
        keys or latent_width,
        values or keys or latent_width, cross, values or cross, config.get("self_attention_widening_factor", 1),
        config.get("cross_attention_widening_factor", 1),
        bool(config.get("use_query_residual", True)), config.get("hidden_act", "gelu"), sees=sees,
        image=config.get("image_size", 224 if sees != "learned" else 56) if sees else 0, classes=classes if sees else 0,
    )  # fmt: skip


def deberta_names(attention):
    return bert_names("deberta", query=attention + "query_proj", key_=attention + "key_proj", value=attention + "value_proj") | {
        "distances": "deberta.encoder.rel_embeddings", "distances.scale": "=deberta.encoder.LayerNorm.weight",
        "distances.bias": "=deberta.encoder.LayerNorm.bias", "pooler": "pooler.dense", "layers.pos_k": DEBERTA_LAYER + "pos_key_proj",
        "layers.pos_q": DEBERTA_LAYER + "pos_query_proj"}  # fmt: skip


DEBERTA_LAYER = "deberta.encoder.layer.{}.attention.self."
FUSED = {f"layers.{n}.w": f"{DEBERTA_LAYER}in_proj#{n}/groups" for n in "qkv"} | {
    "layers.q.b": f"={DEBERTA_LAYER}q_bias", "layers.v.b": f"={DEBERTA_LAYER}v_bias", "layers.pos_k": DEBERTA_LAYER + "pos_proj",
    "layers.pos_q": DEBERTA_LAYER + "pos_q_proj"}  # fmt: skip


def modern_forms(config):
    """A full layer, then two that see a window, and so on; the first layer has no norm of its own."""
    each = config.get("global_attn_every_n_layers") or 3
    types = layer_types(config, lambda i: "sliding_attention" if i % each else "full_attention")
    near, far = config.get("local_rope_theta") or 10000.0, config.get("global_rope_theta") or 160000.0
    local, whole = rope_of(config, part="sliding_attention", theta=near), rope_of(config, part="full_attention", theta=far)
    window = (config.get("local_attention") or 128) // 2
    made = forms_of(types, {"sliding_attention": {"window": window, "rope": local}, "full_attention": {"rope": whole}})
    return ((("first_norm", False), *made[0]), *made[1:])


ROBERTA = BERT.like("roberta", "BERT with positions that begin after the padding's, one kind of token",
              bert_names("roberta") | masked_names("lm_head.dense", "lm_head.layer_norm", "lm_head.bias") | DENSE_HEAD, "roberta.",
              position_offset=lambda c: Key("pad_token_id", default=1)(c) + 1, eps=key("layer_norm_eps", 1e-5),
              types=key("type_vocab_size", 1))  # fmt: skip
ENCODERS = [
    BERT,
    ROBERTA,
    BERT.like("distilbert", "BERT without kinds of token", bert_names(
        "distilbert", "transformer.layer", "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
        "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm") | masked_names(
            "vocab_transform", "vocab_layer_norm", "vocab_projector.bias") | {"pooler": "pre_classifier"}, "distilbert.", width=Key("dim"),
        layers=Key("n_layers"), heads=Key("n_heads"), ffn=Key("hidden_dim"), eps=1e-12, types=0, pooler="relu", also=("sinusoidal_pos_embds",),
        activation=key("activation", "gelu")),
    BERT.like("albert", "BERT whose layers share one set of weights, narrower embedding", bert_names(
        "albert", "encoder.albert_layer_groups.0.albert_layers", "attention.query", "attention.key", "attention.value",
        "attention.dense", "attention.LayerNorm", "ffn", "ffn_output", "full_layer_layer_norm") | masked_names(
            "predictions.dense", "predictions.LayerNorm", "predictions.bias") | {
            "embed_in": "albert.encoder.embedding_hidden_mapping_in", "pooler": "albert.pooler"}, "albert.", shared=True,
        embed=key("embedding_size", 128), activation=key("hidden_act", "gelu_new"), fixed=dict(num_hidden_groups=1, inner_group_num=1)),
    BERT.like("electra", "BERT with a narrower embedding", bert_names("electra") | masked_names(
        "generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias") | DENSE_HEAD | {
            "embed_in": "electra.embeddings_project"}, "electra.", embed=key("embedding_size", 128), pooler="gelu"),
    ROBERTA.like("camembert", "roberta by another name"),
    ROBERTA.like("xlm-roberta", "roberta by another name"),
    BERT.like("deberta-v2", "BERT whose queries and keys look at distances, too; versions 2 and 3", deberta_names("attention.self."), "deberta.",
              mixer="distances", distances=deberta_distances, eps=key("layer_norm_eps", 1e-7), pooler=key("pooler_hidden_act", "gelu"),
              types=key("type_vocab_size", 0),
              positions=lambda c: "learned" if c.get("position_biased_input", True) else "none",
              also=("pooler_hidden_size", "attention_head_size", "legacy")),
    BERT.like("deberta", "the first of them: distances have projections of their own", deberta_names("attention.self.") | FUSED, "deberta.",
              mixer="distances", distances=deberta_distances, eps=key("layer_norm_eps", 1e-7), pooler=key("pooler_hidden_act", "gelu"),
              types=key("type_vocab_size", 0), k_bias=False,
              positions=lambda c: "learned" if c.get("position_biased_input", True) else "none", also=("pooler_hidden_size", "legacy")),
    Family("modernbert", "encoder", HF_SIZES | dict(
        positions="rope", causal=False, eps=key("norm_eps", 1e-5), activation=key("hidden_activation", "gelu"), gated=True,
        norm=lambda c: "layer" if c.get("norm_bias") else "centred", qkv_bias=key("attention_bias", False), o_bias=key("attention_bias", False),
        mlp_bias=key("mlp_bias", False), embed_norm=True, masked_bias=key("classifier_bias", False),
        masked_activation=key("classifier_activation", "gelu"),
        forms=modern_forms), {
        "tokens": "model.embeddings.tok_embeddings", "embed_norm": "model.embeddings.norm", "norm": "model.final_norm",
        "layers.norm1": "model.layers.{}.attn_norm", "layers.norm2": "model.layers.{}.mlp_norm", "layers.o": "model.layers.{}.attn.Wo",
        "layers.gate": "model.layers.{}.mlp.Wi#gate", "layers.up": "model.layers.{}.mlp.Wi#up", "layers.down": "model.layers.{}.mlp.Wo"} | {
        f"layers.{n}": f"model.layers.{{}}.attn.Wqkv#{n}" for n in "qkv"} | masked_names("head.dense", "head.norm", "decoder.bias"), "model.",
        note="rotary positions, GeGLU, two layers of three see a window", read=modern_of,
        also=("decoder_bias", "sparse_prediction", "sparse_pred_ignore_index", "embedding_dropout",
        "mlp_dropout", "layer_norm_eps", "sliding_window", "position_embedding_type")),
    Family("perceiver", "perceiver", note="a few latents look at all tokens or pixels, and the places to fill in, or of the class, at them", read=perceiver_of,
           also=("image_size", "train_size", "num_frames", "audio_samples_per_frame", "samples_per_patch", "output_shape", "output_num_channels",
           "layer_norm_eps",
                 "tie_word_embeddings")),
]  # fmt: skip
