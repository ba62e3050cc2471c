"""Trained on one machine, deployed on another: weights are saved on trn1, and compiled again for inference on inf2.

    python train_deploy.py train weights.pt          # on trn1
    python train_deploy.py deploy weights.pt out.pt  # on inf2
"""

import sys

import torch
import torch_neuronx
import torch_xla.core.xla_model as xm
from transformers import BertConfig, BertForSequenceClassification

CONFIG = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                    max_position_embeddings=64, num_labels=3)


def sentences():
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 500, (8, 32), generator=g)
    return ids, ids[:, 0] % 3


def train(weights, steps=6):
    device = xm.xla_device()
    torch.manual_seed(0)
    model = BertForSequenceClassification(CONFIG).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids, labels = (t.to(device) for t in sentences())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        xm.optimizer_step(optimizer)
        xm.mark_step()
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    xm.save({"model": model.state_dict(), "logits": logits}, weights)
    print(f"trained on {torch.neuron.get_device_name()}: loss {loss.item():.4f}")


def deploy(weights, out):
    saved = torch.load(weights)
    model = BertForSequenceClassification(CONFIG).eval()
    model.load_state_dict(saved["model"])
    ids, _ = sentences()
    torch.jit.save(torch_neuronx.trace(model, ids), out)
    loaded = torch.jit.load(out)
    logits = loaded(ids)["logits"]
    worst = (logits - saved["logits"]).abs().max().item()
    print(f"deployed on {torch.neuron.get_device_name()}: largest difference from the machine it was trained on {worst:.1e}")
    assert worst < 1e-4


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("train", "deploy"):
        sys.exit(__doc__)
    train(sys.argv[2]) if sys.argv[1] == "train" else deploy(*sys.argv[2:4])
