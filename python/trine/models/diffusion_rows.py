"""Diffusion models by diffusers' configurations, one row each. Needs no JAX."""

from trine.models.reading import ConfigError
from trine.models.rows import Family
from trine.models.settings import Dit, UNet, Vae


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


def dit_of(config, values):
    heads, dim, channels = config.get("num_attention_heads", 16), config.get("attention_head_dim", 72), config.get("in_channels", 4)
    return Dit(heads * dim, config.get("num_layers", 28), heads, dim, channels, config.get("out_channels") or channels,
        config.get("sample_size", 32),
               config.get("patch_size", 2), config.get("norm_eps", 1e-5), bool(config.get("attention_bias", True)),
               config.get("num_embeds_ada_norm", 1000))  # fmt: skip


def sd3_of(config, values):
    heads, dim, channels = config.get("num_attention_heads", 18), config.get("attention_head_dim", 64), config.get("in_channels", 16)
    if config.get("caption_projection_dim", heads * dim) != heads * dim:
        raise ConfigError(f'"caption_projection_dim" of Stable Diffusion 3 is the blocks\' width, here {heads * dim}')
    if config.get("qk_norm") not in (None, "rms_norm"):
        raise ConfigError(f'qk_norm "{config.get("qk_norm")}" is not in the zoo; "rms_norm" is')
    return Dit(heads * dim, config.get("num_layers", 18), heads, dim, channels, config.get("out_channels") or channels,
        config.get("sample_size", 128),
               config.get("patch_size", 2), text=config.get("joint_attention_dim", 4096), pooled=config.get("pooled_projection_dim", 2048),
               table=config.get("pos_embed_max_size", 96), dual=tuple(config.get("dual_attention_layers") or ()),
               qk_norm=config.get("qk_norm") is not None)  # fmt: skip


def flux_of(config, values):
    heads, dim, channels = config.get("num_attention_heads", 24), config.get("attention_head_dim", 128), config.get("in_channels", 64)
    axes = tuple(config.get("axes_dims_rope", (16, 56, 56)))
    if sum(axes) != dim:
        raise ConfigError(f"axes_dims_rope {list(axes)} add up to {sum(axes)}; a head has {dim} dims")
    return Dit(heads * dim, config.get("num_layers", 19), heads, dim, channels, config.get("out_channels") or channels,
        config.get("sample_size", 128),
               text=config.get("joint_attention_dim", 4096), pooled=config.get("pooled_projection_dim", 768),
               singles=config.get("num_single_layers", 38),
               guided=bool(config.get("guidance_embeds", False)), axes=axes)  # fmt: skip


def vae_of(config, values):
    widths = tuple(config.get("block_out_channels", (64,)))
    for name, kind in (("down_block_types", "DownEncoderBlock2D"), ("up_block_types", "UpDecoderBlock2D")):
        if set(config.get(name, ())) - {kind}:
            raise ConfigError(f"{name} has {sorted(set(config.get(name)))}; known is {kind}")
    if config.get("out_channels", 3) != config.get("in_channels", 3):
        raise ConfigError("an autoencoder gives as many channels as it takes in the zoo")
    quant = config.get("use_quant_conv", True)
    if quant != config.get("use_post_quant_conv", True):
        raise ConfigError("use_quant_conv and use_post_quant_conv are alike in the zoo")
    return Vae(config.get("in_channels", 3), config.get("latent_channels", 4), widths, config.get("layers_per_block", 1),
        config.get("norm_num_groups", 32),
               config.get("sample_size", 512), bool(config.get("mid_block_add_attention", True)), bool(quant))  # fmt: skip


DIFFUSION = [
    Family("stable-diffusion unet", "unet", {}, {}, note="Stable Diffusion 1, 2 and XL by diffusers' config.json", read=unet_of,
           also=("addition_embed_type_num_heads", "upcast_attention", "num_class_embeds", "mid_block_only_cross_attention"),
           fixed=dict(center_input_sample=False, conv_in_kernel=3, conv_out_kernel=3, downsample_padding=1, mid_block_scale_factor=1,
           resnet_out_scale_factor=1.0,
                      resnet_skip_time_act=False, resnet_time_scale_shift="default", attention_type="default", time_embedding_type="positional",
                      class_embeddings_concat=False, cross_attention_norm=None, encoder_hid_dim=None, time_cond_proj_dim=None)),
    Family("dit", "dit", note="DiT by diffusers' config.json: a latent image, a time and a class", read=dit_of,
    also=("norm_num_groups", "upcast_attention"),
           fixed=dict(activation_fn="gelu-approximate", norm_type="ada_norm_zero", norm_elementwise_affine=False)),
    Family("sd3", "sd3", note="Stable Diffusion 3 and 3.5's transformer by diffusers' config.json", read=sd3_of),
    Family("flux", "flux", {}, {"*": "path", "single_transformer_blocks.out_attn": "single_transformer_blocks.{}.proj_out#first",
                                "single_transformer_blocks.out_mlp.w": "single_transformer_blocks.{}.proj_out#rest",
                                "single_transformer_blocks.out_mlp.b": "single_transformer_blocks.{}.proj_out"},
           note="Flux's transformer by diffusers' config.json", read=flux_of, fixed=dict(patch_size=1)),
    Family("autoencoder_kl", "vae", note="the autoencoder of Stable Diffusion and Flux by diffusers' config.json, NHWC", read=vae_of,
           also=("scaling_factor", "shift_factor", "latents_mean", "latents_std", "force_upcast", "up_block_types"), fixed=dict(act_fn="silu")),
]  # fmt: skip
