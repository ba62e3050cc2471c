"""generate() of tiny random models: greedy, beams, and sampling whose chance comes from the CPU's generator."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

SMALL = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=120, pad_token_id=0,
             bos_token_id=1, eos_token_id=119)
CAUSAL = {
    "llama": dict(num_key_value_heads=2), "qwen2": dict(num_key_value_heads=2), "qwen3": dict(num_key_value_heads=2, head_dim=8),
    "mistral": dict(num_key_value_heads=2), "mixtral": dict(num_key_value_heads=2, num_local_experts=4),
    "gemma2": dict(num_key_value_heads=2, head_dim=8), "phi3": dict(num_key_value_heads=2), "gpt_neox": {},
    "gpt2": dict(n_embd=32, n_layer=2, n_head=4, n_positions=64), "opt": dict(ffn_dim=64, word_embed_proj_dim=32),
    "bloom": dict(n_layer=2, n_head=4), "falcon": {}, "olmo2": dict(num_key_value_heads=2), "stablelm": dict(num_key_value_heads=2),
}
SEQ2SEQ = {
    "t5": dict(d_model=32, d_ff=64, d_kv=8, num_layers=2, num_heads=4, vocab_size=120, decoder_start_token_id=0, pad_token_id=0),
    "bart": dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                 encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=120, max_position_embeddings=64, forced_eos_token_id=None),
}
WAYS = {"greedy": dict(do_sample=False), "beams": dict(num_beams=3, do_sample=False)}


def generated(model, device):
    ids = torch.arange(2, 14).reshape(2, 6)
    model = model.eval().to(device)
    for name, way in WAYS.items():
        out = model.generate(ids.to(device), max_new_tokens=8, min_new_tokens=8, **way)
        yield name, out.cpu()


def run(device):
    arrays = {}
    for maker, rows in ((AutoModelForCausalLM, CAUSAL), (AutoModelForSeq2SeqLM, SEQ2SEQ)):
        for family, settings in rows.items():
            torch.manual_seed(0)
            config = AutoConfig.for_model(family, **(settings if maker is AutoModelForSeq2SeqLM else SMALL | settings))
            for name, ids in generated(maker.from_config(config), device):
                arrays[f"{family}-{name}"] = ids
    return arrays
