"""Three AdamW steps of tiny random models of transformers: encoders, decoders, vision, audio."""

import torch
from transformers import AutoConfig, AutoModel

TEXT = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=120, pad_token_id=0,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
TEXTS = {
    "bert": {}, "roberta": dict(max_position_embeddings=40), "electra": dict(embedding_size=32), "albert": dict(embedding_size=16),
    "deberta-v2": {}, "modernbert": dict(global_attn_every_n_layers=2, attention_dropout=0.0),
    "distilbert": dict(dim=32, hidden_dim=64, n_layers=2, n_heads=4, dropout=0.0, attention_dropout=0.0),
    "llama": dict(num_key_value_heads=2), "qwen3": dict(num_key_value_heads=2, head_dim=8),
}
IMAGE = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
IMAGES = {"vit": IMAGE, "deit": IMAGE, "dinov2": IMAGE | dict(drop_path_rate=0.0),
          "convnext": dict(depths=[1, 1], hidden_sizes=[16, 32], num_stages=2, drop_path_rate=0.0),
          "resnet": dict(depths=[1, 1], hidden_sizes=[16, 32], embedding_size=16, layer_type="basic")}


def losses(family, settings, inputs, device):
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model(family, **settings)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    out = []
    for _ in range(3):
        loss = model(**{k: v.to(device) for k, v in inputs.items()})[0].float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.detach().cpu())
    return torch.stack(out)


def run(device):
    ids = torch.arange(2, 66).reshape(4, 16)
    arrays = {f: losses(f, TEXT | s, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, device) for f, s in TEXTS.items()}
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return arrays | {f: losses(f, s, {"pixel_values": pixels}, device) for f, s in IMAGES.items()}
