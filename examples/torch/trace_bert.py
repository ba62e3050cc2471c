"""A model traced for inference, saved, loaded and compared, as existing scripts do it."""

import os
import tempfile

import torch
import torch_neuronx
from transformers import BertConfig, BertForSequenceClassification


def main():
    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=4, intermediate_size=512)
    model = BertForSequenceClassification(config).eval()
    ids = torch.randint(0, 30000, (2, 32))
    example = (ids, torch.ones_like(ids))
    traced = torch_neuronx.trace(model, example)
    path = os.path.join(tempfile.mkdtemp(), "bert.pt")
    torch.jit.save(traced, path)
    loaded = torch.jit.load(path)
    with torch.no_grad():
        worst = (loaded(*example)["logits"] - model(*example).logits).abs().max().item()
    print(f"traced, saved as {os.path.getsize(path) / 2**20:.1f} MiB and loaded: max error {worst:.1e}")
    assert worst < 1e-4


if __name__ == "__main__":
    main()
