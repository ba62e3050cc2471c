"""Models of images, and of images with text, one row each. Needs no JAX."""

from dataclasses import replace

from trine.models.decoder_rows import DECODERS, GEMMA2, HF_SIZES, LLAMA_NAMES
from trine.models.reading import ConfigError
from trine.models.rows import Family, Key, key, transformer_of, values_of
from trine.models.settings import Block, Clip, ConvNext, EfficientNet, ResNet, Seeing, Swin, Transformer, Vgg

VISION_VALUES = dict(width=Key("hidden_size"), layers=Key("num_hidden_layers"), heads=Key("num_attention_heads"),
                     ffn=Key("intermediate_size"), positions="learned", causal=False, patch=Key("patch_size"),
                     image=Key("image_size"), channels=key("num_channels", 3), head="")  # fmt: skip


def clip_names(side, tower):
    layer = f"{tower}.encoder.layers.{{}}."
    return {f"{side}.layers.{name}": layer + theirs for name, theirs in {
        "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.out_proj",
        "norm1": "layer_norm1", "norm2": "layer_norm2", "up": "mlp.fc1", "down": "mlp.fc2"}.items()}  # fmt: skip


def clip_of(config, values):
    def tower(name, given, **more):
        full = config.part(name, given)
        full.seen.add("projection_dim")  # what stands beside both is the one
        common = dict(eps=full.get("layer_norm_eps", 1e-5), activation=full.get("hidden_act", "quick_gelu"), positions="learned",
                      block="pre", head="")  # fmt: skip
        return full, values_of(more, full) | common

    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8,
             "vocab_size": 49408, "max_position_embeddings": 77}  # fmt: skip
    whole, text = tower("text_config", sizes, **HF_SIZES)
    pixels = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
              "image_size": 224, "patch_size": 32}  # fmt: skip
    _, vision = tower("vision_config", pixels, **VISION_VALUES)
    vision |= dict(embed_norm=True, patch_bias=False)
    return Clip(transformer_of(config, text | dict(causal=True)), transformer_of(config, vision),
                config.get("projection_dim", 512), whole.get("eos_token_id", 2))  # fmt: skip


def classes_of(config, usual=2):
    return len(config.get("id2label") or ()) or config.get("num_labels") or config.get("num_classes") or usual


def side_of(config, usual=224):
    """Of the images, which are square."""
    given = config.get("image_size") or usual
    return given if isinstance(given, int) else given[0]


def dino_head(config):
    return "classes" if any("ForImage" in name for name in config.get("architectures") or ()) else ""


def dino_ffn(config):
    ffn = int(config["hidden_size"] * (config.get("mlp_ratio") or 4))
    return (int(ffn * 2 / 3) + 7) // 8 * 8 if config.get("use_swiglu_ffn") else ffn


def convnext_of(config, values):
    return ConvNext(
        config.kind(), 2 if config.kind() == "convnextv2" else 1, config.get("num_channels", 3), config.get("patch_size", 4),
        tuple(config.get("hidden_sizes") or (96, 192, 384, 768)), tuple(config.get("depths") or (3, 3, 9, 3)), config.get("hidden_act", "gelu"),
        config.get("layer_norm_eps", 1e-12), side_of(config), classes_of(config), (config.get("layer_scale_init_value", 1e-6) or 0) > 0,
    )  # fmt: skip


def efficientnet_of(config, values):
    """Widths and depths of B0, times what the others multiply them by."""
    each, times, deeper = config.get("depth_divisor", 8), config.get("width_coefficient", 2.0), config.get("depth_coefficient", 3.1)

    def wide(count):
        made = max(each, int(count * times + each / 2) // each * each)
        return int(made + each if made < 0.9 * count * times else made)

    usual = {"in_channels": (32, 16, 24, 40, 80, 112, 192), "out_channels": (16, 24, 40, 80, 112, 192, 320), "strides": (1, 2, 2, 2, 1, 2, 1),
             "kernel_sizes": (3, 3, 5, 3, 5, 5, 3), "expand_ratios": (1, 6, 6, 6, 6, 6, 6), "num_block_repeats": (1, 2, 2, 3, 3, 4, 1)}  # fmt: skip
    columns = [config.get(name, row) for name, row in usual.items()]
    around, blocks = config.get("depthwise_padding") or (), []
    for inputs, outputs, stride, kernel, expand, repeats in zip(*columns, strict=True):
        for j in range(-int(-deeper * repeats // 1)):
            blocks.append(Block(wide(outputs if j else inputs), wide(outputs), expand, kernel, 1 if j else stride, j > 0,
                len(blocks) not in around))
    if config.get("pooling_type", "mean") != "mean":
        raise ConfigError(f'pooling_type "{config.get("pooling_type")}" of efficientnet is not in the zoo; "mean" is')
    act = config.get("hidden_act", "silu")
    return EfficientNet(config.get("num_channels", 3), wide(32), tuple(blocks), config.get("squeeze_expansion_ratio", 0.25), wide(1280),
                        "silu" if act == "swish" else act, config.get("batch_norm_eps", 0.001), side_of(config, 600),
                        classes_of(config))  # fmt: skip


VGGS = {  # convolutions per stage of 64, 128, 256, 512 and 512 channels: Simonyan and Zisserman, table 1, columns A, B, D, E
    "vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4),
}  # fmt: skip


def vgg_of(config, values):
    name = config.get("architecture") or "vgg16"
    plain = name.removesuffix("_bn")
    if plain not in VGGS:
        raise ConfigError(f'no VGG "{name}"; there are {", ".join(VGGS)}, each also with _bn')
    stem = config.get("width", 64)
    widths = [w for i, count in enumerate(VGGS[plain]) for w in [min(8, 2**i) * stem] * count + ["M"]]
    return Vgg(config.get("num_channels", 3), tuple(widths), name != plain, config.get("hidden_size", 4096), classes_of(config, 1000))


def swin_of(config, values):
    if config.get("use_absolute_embeddings"):
        raise ConfigError('"use_absolute_embeddings" of swin is not in the zoo')
    return Swin(
        config.get("num_channels", 3), side_of(config), config.get("patch_size", 4), config.get("embed_dim", 96),
        tuple(config.get("depths", (2, 2, 6, 2))),
        tuple(config.get("num_heads", (3, 6, 12, 24))), config.get("window_size", 7), config.get("mlp_ratio", 4.0),
        bool(config.get("qkv_bias", True)),
        config.get("hidden_act", "gelu"), config.get("layer_norm_eps", 1e-5), classes_of(config),
    )  # fmt: skip


READERS_OF_TEXT = {row.name: row for row in DECODERS if row.name in ("llama", "mistral", "qwen2")}  # whose names are alike


def text_of(part, usual, **more):
    """The decoder of a part of a configuration."""
    kind = part.get("model_type") or usual
    if kind not in READERS_OF_TEXT:
        raise ConfigError(f'a text of kind "{kind}"; known there are {", ".join(READERS_OF_TEXT)}')
    row = READERS_OF_TEXT[kind]
    made = row.read(part, values_of(row.values, part) | more)
    part.seen |= set(row.also)
    return made


LLAVA_TEXT = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 2048}
CLIP_LARGE = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "image_size": 336,
    "patch_size": 14}


def llava_of(config, values):
    """Files leave out of both parts what is usual."""
    part, tower = config.part("text_config", LLAVA_TEXT), config.part("vision_config", CLIP_LARGE)
    if tower.get("model_type", "clip_vision_model") != "clip_vision_model":
        raise ConfigError(f'a tower of kind "{tower.get("model_type")}"; known there is clip_vision_model')
    tower.seen |= {"projection_dim", "vocab_size"}
    sees = values_of(VISION_VALUES, tower) | dict(eps=tower.get("layer_norm_eps", 1e-5), activation=tower.get("hidden_act", "quick_gelu"),
        block="pre",
                                                  embed_norm=True, patch_bias=False)  # fmt: skip
    layer = config.get("vision_feature_layer", -2)
    if not isinstance(layer, int):
        raise ConfigError(f"vision_feature_layer {layer}: states of several layers are not in the zoo")
    act = config.get("projector_hidden_act", "gelu")
    tied = bool(config.get("tie_word_embeddings", False))
    return Seeing(text_of(part, "llama", tied=tied), transformer_of(tower, sees), Key("image_token_index", "image_token_id", default=32000)(config),
        layer,
                  config.get("vision_feature_select_strategy", "default") == "default", act,
                  bool(config.get("multimodal_projector_bias", True)))  # fmt: skip


GEMMA3_TEXT = {"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4,
               "head_dim": 256, "max_position_embeddings": 131072, "query_pre_attn_scalar": 256, "sliding_window": 4096,
               "model_type": "gemma3_text"}  # fmt: skip
SIGLIP = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "image_size": 224, "patch_size": 16}


def gemma3_of(config, values):
    part, tower = config.part("text_config", GEMMA3_TEXT), config.part("vision_config", SIGLIP)
    if tower.get("model_type", "siglip_vision_model") != "siglip_vision_model" or tower.get("vision_use_head"):
        raise ConfigError("Gemma 3 sees by siglip_vision_model without a head; nothing else is known there")
    row = next(row for row in DECODERS if row.name == "gemma3_text")
    text = row.read(part, values_of(row.values, part))
    part.seen |= set(row.also)
    sees = values_of(VISION_VALUES, tower) | dict(eps=tower.get("layer_norm_eps", 1e-6), activation=tower.get("hidden_act", "gelu_new"),
        block="pre", first_token=False)
    side = int((config.get("mm_tokens_per_image") or 256) ** 0.5)
    return Seeing(replace(text, tied=bool(config.get("tie_word_embeddings", True))), transformer_of(tower, sees),
        Key("image_token_id", "image_token_index", default=262144)(config),
                  layer=0, joint_bias=False, pooled=side, together=True)  # fmt: skip


def qwen_sections(part):
    given = part.part("rope_parameters").get("mrope_section") or part.part("rope_scaling").get("mrope_section")
    return tuple(given or (16, 24, 24))


def qwen_vl_of(config, values):
    """Older files have the text's keys beside the parts, newer ones in a part of their own."""
    part = config.part("text_config") if config.get("text_config") is not None else config
    tower, later = config.part("vision_config"), config.kind() == "qwen2_5_vl"
    text = transformer_of(part, values_of(READERS_OF_TEXT["qwen2"].values, part))
    text = replace(text, rope=replace(text.rope, sections=qwen_sections(part)), tied=bool(config.get("tie_word_embeddings", False)))
    width = tower.get("hidden_size", 1280) if later else tower.get("embed_dim", 1280)
    heads, patch, merge = tower.get("num_heads", 16), Key("patch_size", "spatial_patch_size", default=14)(tower), tower.get("spatial_merge_size", 2)
    common = dict(width=width, layers=tower.get("depth", 32), heads=heads, positions="rope", causal=False, patch=patch,
        image=config.get("image_size", 448),
                  channels=Key("in_channels", "in_chans", default=3)(tower), head="", block="pre", eps=1e-6)  # fmt: skip
    tower.seen |= {"hidden_size", "out_hidden_size", "in_chans", "in_channels", "spatial_patch_size", "tokens_per_second", "rope_parameters",
        "model_type", "intermediate_size",
                   "mlp_ratio", "hidden_act", "window_size", "fullatt_block_indexes"}  # fmt: skip
    if later:
        sees = Transformer(**common, ffn=tower.get("intermediate_size", 3420), norm="rms", gated=True, activation=tower.get("hidden_act", "silu"))
        window = tower.get("window_size", 112) // merge // patch
        return Seeing(text, sees, config.get("image_token_id", 151655), merge=merge, frames=tower.get("temporal_patch_size", 2), window=window,
                      whole=tuple(tower.get("fullatt_block_indexes", (7, 15, 23, 31))))  # fmt: skip
    sees = Transformer(**common, ffn=int(width * tower.get("mlp_ratio", 4)), activation=tower.get("hidden_act", "quick_gelu"))
    return Seeing(text, sees, config.get("image_token_id", 151655), merge=merge, frames=tower.get("temporal_patch_size", 2))


def under(ours, theirs, names):
    return {f"{ours}.{name}": "|".join(theirs + one for one in given.split("|")) for name, given in names.items()}


def tower_names():
    """Of CLIP's and SigLIP's towers inside another model: older files name the tower's model, too."""
    names = {"vision.patches": "embeddings.patch_embedding", "vision.positions": "embeddings.position_embedding", "vision.norm": "post_layernorm",
             "vision.embed_norm": "pre_layrnorm"}  # fmt: skip
    names |= {ours: theirs.removeprefix("tower.") for ours, theirs in clip_names("vision", "tower").items()}
    return {ours: "|".join(start + theirs for start in ("vision_tower.vision_model.", "vision_tower.")) for ours, theirs in names.items()}


QWEN_BLOCK = "visual.blocks.{}."
QWEN_SEES = {"patches": "visual.patch_embed.proj", "norm": "visual.merger.ln_q", "layers.o": QWEN_BLOCK + "attn.proj",
    "layers.norm1": QWEN_BLOCK + "norm1",
             "layers.norm2": QWEN_BLOCK + "norm2", "layers.gate": QWEN_BLOCK + "mlp.gate_proj",
             "layers.up": QWEN_BLOCK + "mlp.fc1|" + QWEN_BLOCK + "mlp.up_proj",
             "layers.down": QWEN_BLOCK + "mlp.fc2|" + QWEN_BLOCK + "mlp.down_proj"} | {f"layers.{n}": f"{QWEN_BLOCK}attn.qkv#{n}" for n in "qkv"}  # fmt: skip
QWEN_VL = Family("qwen2_vl", "seeing", {}, under("text", "", LLAMA_NAMES) | under("vision", "", QWEN_SEES) | {
    "joint.one": "visual.merger.mlp.0", "joint.two": "visual.merger.mlp.2"},
    note="qwen2 that sees: patches turn by row and column, four become a token, tokens have three positions",
    read=qwen_vl_of, also=("video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id", "text_config",
    "image_size"))  # fmt: skip


def resnet_of(config, values):
    return ResNet(
        channels=config.get("num_channels", 3), stem=config.get("embedding_size", 64),
        widths=tuple(config.get("hidden_sizes", (256, 512, 1024, 2048))), depths=tuple(config.get("depths", (3, 4, 6, 3))),
        bottleneck=config.get("layer_type", "bottleneck") == "bottleneck", activation=config.get("hidden_act", "relu"),
        shrink_first=config.get("downsample_in_first_stage", False), shrink_early=config.get("downsample_in_bottleneck", False),
        classes=len(config.get("id2label") or ()) or config.get("num_labels") or 1000,
    )  # fmt: skip


VIT_LAYER, DINO_LAYER = "vit.encoder.layer.{}.", "dinov2.encoder.layer.{}."
VISION = [
    Family("vit", "vit", VISION_VALUES | dict(
        block="pre", eps=key("layer_norm_eps", 1e-12), activation=key("hidden_act", "gelu"), qkv_bias=key("qkv_bias", True),
        head="classes", classes=lambda c: len(c.get("id2label") or ()) or c.get("num_labels") or 2), {
        "patches": "vit.embeddings.patch_embeddings.projection", "cls": "=vit.embeddings.cls_token",
        "positions": "=vit.embeddings.position_embeddings", "norm": "vit.layernorm", "classifier": "classifier",
        "layers.q": "vit.encoder.layer.{}.attention.attention.query", "layers.k": "vit.encoder.layer.{}.attention.attention.key",
        "layers.v": "vit.encoder.layer.{}.attention.attention.value", "layers.o": "vit.encoder.layer.{}.attention.output.dense",
        "layers.norm1": "vit.encoder.layer.{}.layernorm_before", "layers.norm2": "vit.encoder.layer.{}.layernorm_after",
        "layers.up": "vit.encoder.layer.{}.intermediate.dense", "layers.down": "vit.encoder.layer.{}.output.dense",
    }, "vit.", note="patches of an image as tokens", also=("encoder_stride", "pooler_output_size", "pooler_act")),
    Family("clip", "clip", {}, clip_names("text", "text_model") | clip_names("vision", "vision_model") | {
        "text.tokens": "text_model.embeddings.token_embedding", "text.positions": "text_model.embeddings.position_embedding",
        "text.norm": "text_model.final_layer_norm", "text.projection": "text_projection", "scale": "=logit_scale",
        "vision.patches": "vision_model.embeddings.patch_embedding", "vision.cls": "=vision_model.embeddings.class_embedding",
        "vision.positions": "vision_model.embeddings.position_embedding", "vision.norm": "vision_model.post_layernorm",
        "vision.embed_norm": "vision_model.pre_layrnorm", "vision.projection": "visual_projection",
    }, note="a text and an image tower into one space", read=clip_of),
    Family("resnet", "resnet", {}, {
        "stem.conv": "resnet.embedder.embedder.convolution", "stem.norm": "resnet.embedder.embedder.normalization",
        "stages.units.conv": "resnet.encoder.stages.{}.layers.{}.layer.{}.convolution",
        "stages.units.norm": "resnet.encoder.stages.{}.layers.{}.layer.{}.normalization",
        "stages.skip.conv": "resnet.encoder.stages.{}.layers.{}.shortcut.convolution",
        "stages.skip.norm": "resnet.encoder.stages.{}.layers.{}.shortcut.normalization", "classifier": "classifier.1"}, "resnet.",
        note="bottleneck or basic blocks, NHWC", read=resnet_of),
    Family("dinov2", "vit", VISION_VALUES | dict(
        block="pre", eps=key("layer_norm_eps", 1e-6), activation=lambda c: "silu" if c.get("use_swiglu_ffn") else c.get("hidden_act", "gelu"),
        qkv_bias=key("qkv_bias", True),
        gated=key("use_swiglu_ffn", False), ffn=dino_ffn, layer_scale=True, head=dino_head, classes=classes_of, pooled="both", image=side_of), {
        "patches": "dinov2.embeddings.patch_embeddings.projection", "cls": "=dinov2.embeddings.cls_token",
        "positions": "=dinov2.embeddings.position_embeddings",
        "norm": "dinov2.layernorm", "classifier": "classifier", "layers.q": DINO_LAYER + "attention.attention.query",
        "layers.k": DINO_LAYER + "attention.attention.key",
        "layers.v": DINO_LAYER + "attention.attention.value", "layers.o": DINO_LAYER + "attention.output.dense",
        "layers.norm1": DINO_LAYER + "norm1",
        "layers.norm2": DINO_LAYER + "norm2", "layers.scale1": "=" + DINO_LAYER + "layer_scale1.lambda1",
        "layers.scale2": "=" + DINO_LAYER + "layer_scale2.lambda1",
        "layers.gate": DINO_LAYER + "mlp.weights_in#gate", "layers.up": DINO_LAYER + "mlp.fc1|" + DINO_LAYER + "mlp.weights_in#up",
        "layers.down": DINO_LAYER + "mlp.fc2|" + DINO_LAYER + "mlp.weights_out",
    }, "dinov2.", note="ViT with a factor per channel of what a block adds; the largest: SwiGLU",
    also=("layerscale_value", "use_mask_token", "apply_layernorm", "reshape_hidden_states", "hidden_act")),
    Family("convnext", "convnext", prefix="convnext.", note="wide convolutions of each channel, then an MLP over channels, NHWC", read=convnext_of,
    also=("num_stages", "image_size")),
    Family("convnextv2", "convnext", prefix="convnextv2.", note="convnext with channels weighed by their answer to the image", read=convnext_of,
    also=("num_stages", "layer_scale_init_value")),
    Family("efficientnet", "efficientnet", prefix="efficientnet.", note="blocks that widen, look at each channel, weigh channels and narrow, NHWC",
    read=efficientnet_of,
           also=("batch_norm_momentum", "hidden_dim", "num_hidden_layers", "drop_connect_rate")),
    Family("vgg", "vgg", note="3x3 convolutions and three dense layers, by `architecture` (vgg11 to vgg19, also _bn), NHWC", read=vgg_of,
    also=("num_features", "pretrained_cfg")),
    Family("swin", "swin", prefix="swin.", note="attention inside windows of an image that move, NHWC", read=swin_of,
    also=("encoder_stride", "hidden_size", "num_layers", "path_norm")),
    Family("llava", "seeing", {}, under("text", "language_model.", LLAMA_NAMES) | tower_names() | {
        "vision.cls": "=vision_tower.vision_model.embeddings.class_embedding|=vision_tower.embeddings.class_embedding",
        "joint.one": "multi_modal_projector.linear_1", "joint.two": "multi_modal_projector.linear_2"},
        note="LLaMA, mistral or qwen2 that sees by CLIP's tower and two dense layers", read=llava_of,
        also=("image_seq_length", "image_grid_pinpoints", "vocab_size", "pad_token_id")),
    QWEN_VL,
    QWEN_VL.like("qwen2_5_vl", "qwen2_vl whose tower has RMS norms, gates, and sees windows in most layers"),
    Family("gemma3", "seeing", {}, under("text", "language_model.", GEMMA2.names) | tower_names() | {
        "joint.one": "=~multi_modal_projector.mm_input_projection_weight", "joint.norm": "multi_modal_projector.mm_soft_emb_norm"},
        note="gemma3_text that sees by SigLIP's tower; an image's tokens see one another", read=gemma3_of,
        also=("boi_token_index", "eoi_token_index", "image_token_id", "image_token_index", "pad_token_id")),
]  # fmt: skip
