"""A training loop of accelerate: prepare, gradient accumulation, clipping, a scheduler, the weights after it."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def run(device):
    accelerator = Accelerator(cpu=device == "cpu", gradient_accumulation_steps=2)
    if device != "cpu" and accelerator.device.type == "cpu":
        raise RuntimeError("accelerate chose the CPU")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=8)
    noise = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(64, 8, generator=noise), torch.randn(64, 1, generator=noise))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8), scheduler)
    losses = []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach().reshape(1)).cpu())
    weights = accelerator.get_state_dict(model)
    return {"losses": torch.cat(losses), "weight": weights["0.weight"].cpu()}
