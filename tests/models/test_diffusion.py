"""Diffusion models beyond the UNet, against diffusers: small random models, by the weights of a file it wrote."""

import diffusers
import jax
import numpy as np
import pytest
import torch
from model_checks import near, randomised
from trine import models

SMALL = dict(num_layers=2, attention_head_dim=8, num_attention_heads=2)
TEXT = dict(joint_attention_dim=12, pooled_projection_dim=10)
CASES = {
    "dit": ("DiTTransformer2DModel", SMALL | dict(sample_size=8, in_channels=4, out_channels=8, num_embeds_ada_norm=10)),
    "sd3": ("SD3Transformer2DModel", SMALL | TEXT | dict(sample_size=8, in_channels=4, out_channels=4, caption_projection_dim=16,
    pos_embed_max_size=6)),
    "sd3.5": ("SD3Transformer2DModel", SMALL | TEXT | dict(sample_size=8, in_channels=4, out_channels=4, caption_projection_dim=16,
    pos_embed_max_size=6,
                                                          dual_attention_layers=(0,), qk_norm="rms_norm")),
    "flux dev": ("FluxTransformer2DModel", SMALL | TEXT | dict(in_channels=8, num_single_layers=2, guidance_embeds=True, axes_dims_rope=(2, 4, 2))),
    "flux schnell": ("FluxTransformer2DModel", SMALL | TEXT | dict(in_channels=8, num_single_layers=1, axes_dims_rope=(2, 4, 2))),
}  # fmt: skip


def pair(kind, config, folder):
    theirs = randomised(getattr(diffusers, kind)(**config))
    theirs.save_pretrained(folder)
    ours = models.build(folder)
    return theirs, ours, ours.load(folder)


def given_to_flux(inputs, config):
    rows = int(inputs["images"].shape[1] ** 0.5)
    ids = torch.zeros(rows * rows, 3)
    ids[:, 1], ids[:, 2] = torch.arange(rows).repeat_interleave(rows), torch.arange(rows).repeat(rows)
    more = dict(guidance=inputs["guidance"]) if config.get("guidance_embeds") else {}
    return dict(hidden_states=inputs["images"], encoder_hidden_states=inputs["text"], pooled_projections=inputs["pooled"], timestep=inputs["times"],
                txt_ids=torch.zeros(5, 3), img_ids=ids, **more)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_diffusion(name, tmp_path):
    kind, config = CASES[name]
    theirs, ours, params = pair(kind, config, tmp_path)
    random = np.random.default_rng(2)
    shape = (2, 16, 8) if "flux" in name else (2, 8, 8, 4)
    inputs = {"images": random.normal(size=shape), "text": random.normal(size=(2, 5, 12)), "pooled": random.normal(size=(2, 10)),
              "guidance": np.array([3.5, 1.0])}  # fmt: skip
    inputs = {key: value.astype(np.float32) for key, value in inputs.items()}
    inputs |= {"times": np.array([0.3, 0.9] if "flux" in name else [3.0, 700.0], np.float32), "classes": np.array([4, 9], np.int32)}
    t = {key: torch.tensor(value) for key, value in inputs.items()}
    with torch.no_grad():
        if "flux" in name:
            want = theirs(**given_to_flux(t, config)).sample
        elif name == "dit":
            want = theirs(t["images"].permute(0, 3, 1, 2), t["times"], t["classes"].long()).sample.permute(0, 2, 3, 1)
        else:
            want = theirs(t["images"].permute(0, 3, 1, 2), t["text"], t["pooled"], t["times"]).sample.permute(0, 2, 3, 1)
    near(jax.jit(ours.forward)(params, inputs), want, 1e-4)


VAE = dict(block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, layers_per_block=1,
    norm_num_groups=4,
           sample_size=16)  # fmt: skip


@pytest.mark.parametrize("more", [dict(), dict(latent_channels=6, use_quant_conv=False, use_post_quant_conv=False)], ids=["sd", "flux"])
def test_autoencoder(more, tmp_path):
    theirs, ours, params = pair("AutoencoderKL", VAE | more, tmp_path)
    random = np.random.default_rng(3)
    images = random.normal(size=(2, 16, 16, 3)).astype(np.float32)
    latents = random.normal(size=(2, 8, 8, more.get("latent_channels", 4))).astype(np.float32)
    with torch.no_grad():
        moments = theirs.encode(torch.tensor(images.transpose(0, 3, 1, 2))).latent_dist.parameters.permute(0, 2, 3, 1)
        made = theirs.decode(torch.tensor(latents.transpose(0, 3, 1, 2))).sample.permute(0, 2, 3, 1)
    forward = jax.jit(ours.forward)
    near(forward(params, {"images": images}), moments, 1e-4)
    near(forward(params, {"latents": latents}), made, 1e-4)


@pytest.mark.parametrize("name", ["dit", "sd3.5", "flux dev"])
def test_cores_together(name):
    """Two cores' parts give what the whole model gives, and a training step's gradients are their parts of the whole ones."""
    from models.test_parallel import by_core

    kind, config = CASES[name]
    model = models.build({"_class_name": kind} | config)
    params = jax.tree.map(lambda x: x * 5, model.init(jax.random.key(0)))
    random = np.random.default_rng(4)
    inputs = {key: (random.uniform(0, 1, s.shape) if s.dtype == np.float32 else random.integers(0, 9, s.shape)).astype(s.dtype)
              for key, s in model.input_shapes("train", 2, 5).items()}  # fmt: skip
    cores = by_core(model, params, 2)
    got = jax.jit(jax.vmap(lambda params: model.forward(params, inputs, "tp"), axis_name="tp"))(cores)
    near(got[0], np.asarray(jax.jit(model.forward)(params, inputs)), 1e-4)
    (loss, _), grads = jax.jit(jax.vmap(lambda params: model.value_and_grad(params, inputs, "tp"), axis_name="tp"))(cores)
    (want, _), whole = jax.jit(model.value_and_grad)(params, inputs)
    near(loss[0], np.asarray(want), 1e-5)
    largest = max(float(np.abs(g).max()) for g in jax.tree.leaves(whole))
    for one, value in zip(jax.tree.leaves(grads), jax.tree.leaves(by_core(model, whole, 2)), strict=True):
        assert np.abs(np.asarray(one) - np.asarray(value)).max() <= 1e-4 * largest
