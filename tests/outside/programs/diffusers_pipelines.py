"""Text-to-image pipelines of diffusers with small random weights: Stable Diffusion by three schedulers, and a DiT."""

import torch
from diffusers import (AutoencoderKL, DDIMScheduler, DiTPipeline, DiTTransformer2DModel, DPMSolverMultistepScheduler,
                       EulerDiscreteScheduler, StableDiffusionPipeline, UNet2DConditionModel)
from transformers import CLIPTextConfig, CLIPTextModel


def autoencoder():
    return AutoencoderKL(block_out_channels=[16, 32], in_channels=3, out_channels=3, latent_channels=4, norm_num_groups=8,
                         down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2)


def stable_diffusion(scheduler, device):
    torch.manual_seed(0)
    unet = UNet2DConditionModel(block_out_channels=(16, 32), layers_per_block=1, sample_size=16, in_channels=4, out_channels=4,
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), norm_num_groups=8,
                                up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32, attention_head_dim=4)
    text = CLIPTextModel(CLIPTextConfig(hidden_size=32, intermediate_size=37, num_attention_heads=4, num_hidden_layers=2,
                                        vocab_size=1000))
    pipeline = StableDiffusionPipeline(vae=autoencoder(), text_encoder=text, tokenizer=None, unet=unet, scheduler=scheduler,
                                       safety_checker=None, feature_extractor=None, requires_safety_checker=False).to(device)
    pipeline.set_progress_bar_config(disable=True)
    prompt = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(1))
    out = pipeline(prompt_embeds=prompt.to(device), negative_prompt_embeds=torch.zeros_like(prompt).to(device), output_type="pt",
                   num_inference_steps=4, height=32, width=32, generator=torch.Generator("cpu").manual_seed(2))
    return out.images.cpu()


def dit(device):
    torch.manual_seed(0)
    model = DiTTransformer2DModel(sample_size=8, num_layers=2, patch_size=2, attention_head_dim=8, num_attention_heads=2,
                                  in_channels=4, out_channels=8, num_embeds_ada_norm=1000).eval()  # training drops labels by chance
    pipeline = DiTPipeline(transformer=model, vae=autoencoder(), scheduler=DDIMScheduler()).to(device)
    pipeline.set_progress_bar_config(disable=True)
    out = pipeline(class_labels=[1], num_inference_steps=3, generator=torch.Generator("cpu").manual_seed(0), output_type="np")
    return torch.from_numpy(out.images)


def run(device):
    schedulers = {"ddim": DDIMScheduler(), "euler": EulerDiscreteScheduler(), "dpm": DPMSolverMultistepScheduler()}
    return {name: stable_diffusion(s, device) for name, s in schedulers.items()} | {"dit": dit(device)}
