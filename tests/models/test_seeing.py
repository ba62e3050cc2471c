"""Decoders that see, against `transformers`: an image and a text, then tokens one after the other."""

import jax
import numpy as np
import pytest
import torch
from model_checks import near, pair, tokens

TEXT = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64)
MROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 1, 1]), bos_token_id=1, eos_token_id=2)
CLIP = dict(model_type="clip_vision_model", hidden_size=24, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, image_size=8,
    patch_size=4)
QWEN = dict(text_config=TEXT | MROPE, image_token_id=98, video_token_id=97, vision_start_token_id=96, vision_end_token_id=95)
SEES = dict(depth=2, num_heads=2, patch_size=4, spatial_merge_size=2)
CASES = {
    "llava": ("LlavaForConditionalGeneration", dict(text_config=TEXT | dict(model_type="llama"), vision_config=CLIP, image_token_index=98,
    image_seq_length=4), 0),
    "gemma3": ("Gemma3ForConditionalGeneration", dict(
        text_config=TEXT | dict(head_dim=16, sliding_window=3, layer_types=["sliding_attention", "full_attention"]), image_token_index=98,
        mm_tokens_per_image=4,
        vision_config=dict(hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=4,
        vision_use_head=False)), 0),
    "qwen2_vl": ("Qwen2VLForConditionalGeneration", QWEN | dict(vision_config=SEES | dict(embed_dim=32, hidden_size=32, mlp_ratio=2)), 4),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", QWEN | dict(vision_config=SEES | dict(
        hidden_size=32, out_hidden_size=32, intermediate_size=40, window_size=16, fullatt_block_indexes=[1])), 8),
    "qwen2_5_vl in uneven windows": ("Qwen2_5_VLForConditionalGeneration", QWEN | dict(vision_config=SEES | dict(
        hidden_size=32, out_hidden_size=32, intermediate_size=40, window_size=16, fullatt_block_indexes=[1])), 6),
}  # fmt: skip


def looked_at(rows, side):
    """(our images, what they are given, tokens of an image)"""
    random = np.random.default_rng(1)
    if not rows:
        images = random.normal(size=(2, side, side, 3)).astype(np.float32)
        return images, dict(pixel_values=torch.tensor(images.transpose(0, 3, 1, 2))), 4
    patches = random.normal(size=(2, rows * rows, 3 * 2 * 16)).astype(np.float32)
    grid = torch.tensor([[1, rows, rows]] * 2)
    return patches, dict(pixel_values=torch.tensor(patches.reshape(-1, patches.shape[-1])), image_grid_thw=grid), rows * rows // 4


@pytest.mark.parametrize("name", CASES)
def test_seeing(name, tmp_path):
    kind, config, rows = CASES[name]
    theirs, ours, params = pair(kind, config, tmp_path)
    images, given, count = looked_at(rows, 16 if name == "gemma3" else 8)
    ids = tokens(length=6 + count, limit=90)
    ids[0, 2 : 2 + count] = ids[1, 3 : 3 + count] = 98
    positions = {}
    if rows:
        kinds = (ids == 98).astype(np.int32)
        where, _ = theirs.model.get_rope_index(torch.tensor(ids).long(), mm_token_type_ids=torch.tensor(kinds),
            image_grid_thw=given["image_grid_thw"])
        positions = {"positions": where.numpy().astype(np.int32)}
        given["position_ids"] = where
    if name == "gemma3":
        given["token_type_ids"] = torch.tensor(ids == 98).long()
    with torch.no_grad():
        want = theirs(input_ids=torch.tensor(ids).long(), use_cache=False, **given).logits
    near(jax.jit(ours.forward)(params, {"tokens": ids, "images": images} | positions), want)
    last = ids.shape[1] - 2
    part = {key: value[..., :last] for key, value in positions.items()}
    logits, cache = jax.jit(ours.prefill)(params, {"tokens": ids[:, :last], "images": images} | part, ours.empty_cache(2, 24))
    near(logits, want[:, last - 1])
    for at in (last, last + 1):
        one = {key: value[..., at : at + 1] for key, value in positions.items()}
        logits, cache = jax.jit(ours.decode)(params, {"tokens": ids[:, at : at + 1], "at": np.int32(at)} | one, cache)
        near(logits, want[:, at])
