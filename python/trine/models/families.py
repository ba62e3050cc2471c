"""The families by name: one row each says what differs, and what its weights are called. Reading needs no JAX.

The rows are in decoder_rows, dense_rows, expert_rows, encoder_rows, pair_rows, vision_rows and diffusion_rows; what a row is
made of, in rows.
"""

import difflib

from trine.models.decoder_rows import DECODERS
from trine.models.dense_rows import DENSE
from trine.models.diffusion_rows import DIFFUSION
from trine.models.encoder_rows import ENCODERS
from trine.models.pair_rows import PAIRS
from trine.models.expert_rows import EXPERTS
from trine.models.reading import ConfigError
from trine.models.rows import Key
from trine.models.vision_rows import VISION

__all__ = ["FAMILIES", "ConfigError", "Key", "family_of"]

FAMILIES = {row.name: row for row in [*DECODERS, *DENSE, *EXPERTS, *ENCODERS, *PAIRS, *VISION, *DIFFUSION]}
CLASSES = {"UNet2DConditionModel": "stable-diffusion unet", "DiTTransformer2DModel": "dit", "SD3Transformer2DModel": "sd3",
           "FluxTransformer2DModel": "flux", "AutoencoderKL": "autoencoder_kl"}  # fmt: skip; of diffusers

SPELLINGS = {"gpt-megatron": "megatron_gpt", "megatron-gpt": "megatron_gpt"}  # of a model_type, beside its own


def family_of(config):
    made = str(config.get("architecture") or "")
    name = config.get("model_type") or CLASSES.get(config.get("_class_name")) or config.get("_class_name") or ("vgg" if made.startswith("vgg") else None)
    if not isinstance(name, str | None):
        raise ConfigError(f"model_type is {name!r}; expected the name of a family")
    name = SPELLINGS.get(name, name)
    if name not in FAMILIES:
        near = difflib.get_close_matches(str(name), FAMILIES, 1, 0.7)
        asked = f'; did you mean "{near[0]}"?' if near else ""
        raise ConfigError(f'model_type "{name}" is not in the zoo{asked}; there are {", ".join(sorted(FAMILIES))}')
    return FAMILIES[name]
