"""A reversible model, which keeps the GPU's random state for its backward pass."""

import torch
from reformer_pytorch import ReformerLM

torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
model = ReformerLM(num_tokens=50, dim=32, depth=2, max_seq_len=64, heads=2, bucket_size=16, n_hashes=2, causal=True, lsh_dropout=0.1).cuda()
tokens = torch.randint(0, 50, (1, 64)).long().cuda()
out = model(tokens)
torch.nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()
assert torch.isfinite(out).all().item() and out.shape == (1, 64, 50)
print(out.device)
