"""Fine-tunes a small BERT on the GPU with mixed precision."""

import torch
from pytorch_pretrained_bert.modeling import BertConfig, BertForSequenceClassification
from torch.cuda.amp import GradScaler, autocast

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
config = BertConfig(100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=32)
model = BertForSequenceClassification(config, num_labels=2).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = GradScaler()
tokens = torch.randint(0, 100, (8, 16)).cuda()
labels = (tokens[:, 0] % 2).cuda()
losses = []
for _ in range(8):
    optimizer.zero_grad()
    with autocast():
        loss = model(tokens, labels=labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
assert losses[-1] < losses[0]
print(loss.device, torch.cuda.memory_allocated() > 0)
