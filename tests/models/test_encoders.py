"""Encoders and pairs of an encoder and a decoder beyond the first ones, against `transformers`; see test_decoders.py."""

import jax
import numpy as np
import pytest
import torch
from model_checks import SIZES, near, pair, pixels, tokens

DISTANCES = dict(relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0, position_biased_input=False, max_relative_positions=16)
ENCODERS = {
    "camembert": ("CamembertForMaskedLM", SIZES),
    "xlm-roberta": ("XLMRobertaForMaskedLM", SIZES),
    "xlm-roberta classes": ("XLMRobertaForSequenceClassification", SIZES | dict(num_labels=3)),
    "deberta": ("DebertaForMaskedLM", SIZES | DISTANCES),
    "deberta far": ("DebertaModel", SIZES | DISTANCES | dict(max_relative_positions=5, type_vocab_size=2, position_biased_input=True)),
    "deberta-v2": ("DebertaV2ForMaskedLM", SIZES | DISTANCES),
    "deberta-v2 as v3": ("DebertaV2ForSequenceClassification", SIZES | DISTANCES |
    dict(position_buckets=6, share_att_key=True, norm_rel_ebd="layer_norm")),
    "modernbert": ("ModernBertForMaskedLM", SIZES | dict(num_hidden_layers=4, local_attention=4, pad_token_id=0, eos_token_id=1, bos_token_id=2,
    cls_token_id=2, sep_token_id=1)),
    "modernbert states": ("ModernBertModel", SIZES | dict(local_attention=4, norm_bias=True, pad_token_id=0, eos_token_id=1, bos_token_id=2,
    cls_token_id=2, sep_token_id=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODERS)
def test_encoder(name, tmp_path):
    theirs, ours, params = pair(*ENCODERS[name], tmp_path)
    ids, mask = tokens(), np.ones((2, 12), bool)
    mask[1, 8:] = False
    with torch.no_grad():
        out = theirs(torch.tensor(ids).long(), attention_mask=torch.tensor(mask).long())
    want = out.logits if hasattr(out, "logits") else out.last_hidden_state
    got = np.asarray(jax.jit(ours.forward)(params, {"tokens": ids, "mask": mask}))
    if got.ndim == 3:
        got, want = got[mask], want[torch.tensor(mask)]
    near(got, want)


BART = dict(vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=2, encoder_ffn_dim=48,
            decoder_ffn_dim=40, max_position_embeddings=32, scale_embedding=True, decoder_start_token_id=2)  # fmt: skip
WHISPER = BART | dict(max_source_positions=10, max_target_positions=16, num_mel_bins=6, pad_token_id=0, bos_token_id=1, eos_token_id=1)
PAIRS = {
    "bart": ("BartForConditionalGeneration", BART),
    "mbart": ("MBartForConditionalGeneration", BART),
    "whisper": ("WhisperForConditionalGeneration", WHISPER),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name, tmp_path):
    theirs, ours, params = pair(*PAIRS[name], tmp_path)
    written = tokens(length=6)
    written[:, 0] = 2
    if name == "whisper":
        features = np.random.default_rng(1).normal(size=(2, 20, 6)).astype(np.float32)
        inputs, given, mask = {"features": features}, dict(input_features=torch.tensor(features.transpose(0, 2, 1))), {}
    else:
        ids, where = tokens(), np.ones((2, 12), bool)
        where[1, 8:] = False
        mask = {"mask": where}
        inputs, given = {"tokens": ids} | mask, dict(input_ids=torch.tensor(ids).long(), attention_mask=torch.tensor(where).long())
    with torch.no_grad():
        want = theirs(**given, decoder_input_ids=torch.tensor(written).long(), use_cache=False).logits
    near(jax.jit(ours.forward)(params, inputs | {"decoder_tokens": written}), want)
    logits, cache = jax.jit(ours.prefill)(params, inputs, ours.empty_cache(2, 12))
    near(logits, want[:, 0])
    decode = jax.jit(ours.decode)
    for at in range(1, 6):
        logits, cache = decode(params, {"tokens": written[:, at : at + 1], "at": np.int32(at)} | mask, cache)
        near(logits, want[:, at])


SPEECH = dict(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(8, 12), conv_stride=(5, 2),
    conv_kernel=(10, 3),
              num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4)  # fmt: skip
SPEAKERS = {
    "wav2vec2": ("Wav2Vec2ForCTC", SPEECH),
    "wav2vec2 large": ("Wav2Vec2ForCTC", SPEECH | dict(feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True)),
    "hubert": ("HubertModel", SPEECH),
}


@pytest.mark.parametrize("name", SPEAKERS)
def test_speech(name, tmp_path):
    theirs, ours, params = pair(*SPEAKERS[name], tmp_path)
    waves = np.random.default_rng(1).normal(size=(2, 300)).astype(np.float32)
    with torch.no_grad():
        want = theirs(torch.tensor(waves))[0]
    near(jax.jit(ours.forward)(params, {"waves": waves}), want)


SEEN = {"ConvProcessing": 24, "Fourier": 8, "Learned": 8}


def test_perceiver(tmp_path):
    config = dict(num_latents=4, d_latents=16, d_model=24, num_blocks=2, num_self_attends_per_block=2, num_self_attention_heads=2,
        num_cross_attention_heads=2, qk_channels=8,
                  v_channels=16, vocab_size=99, max_position_embeddings=12, cross_attention_widening_factor=2)  # fmt: skip
    theirs, ours, params = pair("PerceiverForMaskedLM", config, tmp_path)
    ids, mask = tokens(), np.ones((2, 12), bool)
    mask[1, 8:] = False
    with torch.no_grad():
        want = theirs(inputs=torch.tensor(ids).long(), attention_mask=torch.tensor(mask).long()).logits
    near(jax.jit(ours.forward)(params, {"tokens": ids, "mask": mask}), want)


@pytest.mark.parametrize("kind", ["ConvProcessing", "Fourier", "Learned"])
def test_perceiver_of_images(kind, tmp_path):
    config = dict(num_latents=4, d_latents=16, d_model=24, num_blocks=2, num_self_attends_per_block=2, num_self_attention_heads=2,
                  num_cross_attention_heads=1, image_size=SEEN[kind], num_labels=5)  # fmt: skip
    theirs, ours, params = pair(f"PerceiverForImageClassification{kind}", config, tmp_path)
    images, theirs_images = pixels(SEEN[kind])
    with torch.no_grad():
        want = theirs(inputs=theirs_images).logits
    near(jax.jit(ours.forward)(params, {"images": images}), want)
