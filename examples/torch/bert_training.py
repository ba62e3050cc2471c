"""BERT pre-training as the public tutorials write it: an XLA device, loss.backward(), xm.optimizer_step(optimizer).

Run it as it is; `--amp` trains under torch_xla.amp's autocast and GradScaler. Weights and text are random.
"""

import argparse
import time

import torch
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torch_xla.amp import GradScaler, autocast
from torch_xla.distributed.parallel_loader import MpDeviceLoader
from transformers import BertConfig, BertForMaskedLM


class Sentences(Dataset):
    """Random tokens, of which every seventh is to be guessed."""

    def __init__(self, count, length, vocabulary):
        g = torch.Generator().manual_seed(3)
        self.ids = torch.randint(5, vocabulary, (count, length), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i].clone()
        labels = torch.full_like(ids, -100)
        labels[::7] = ids[::7]
        ids[::7] = 4
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--output")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = xm.xla_device()
    config = BertConfig(vocab_size=1000, hidden_size=args.width, num_hidden_layers=args.layers,
                        num_attention_heads=4, intermediate_size=4 * args.width, max_position_embeddings=64)
    model = BertForMaskedLM(config).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    scaler = GradScaler()
    loader = MpDeviceLoader(DataLoader(Sentences(8 * args.steps, 64, config.vocab_size), batch_size=8), device)

    for step, batch in enumerate(loader):
        began = time.time()
        optimizer.zero_grad()
        if args.amp:
            with autocast(device):
                loss = model(**batch).loss
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss = model(**batch).loss
            loss.backward()
            xm.optimizer_step(optimizer)
        xm.mark_step()
        if step % 5 == 0 or step == args.steps - 1:
            xm.master_print(f"step {step:3}  loss {loss.item():.4f}  {1e3 * (time.time() - began):.0f} ms")

    if args.output:
        xm.save(model.state_dict(), args.output)
    return loss.item()


if __name__ == "__main__":
    main()
