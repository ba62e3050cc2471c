"""An NKI kernel as an operator of a PyTorch model, with the gradient beside it: part of the compiled program.

RMSNorm is the kernel; a model with it learns the same as one with plain torch.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import torch
from torch_neuronx import nki_op

EPS = 1e-6


@nki.jit
def rmsnorm(x, weight):
    """x / √(mean(x²) + eps) · weight along the last dimension of x[n, d]; n is at most 128."""
    n, d = x.shape
    out = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.shared_hbm)
    rows, scale = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.sbuf), nl.ndarray((n, d), dtype=weight.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=x)
    nisa.dma_copy(dst=scale, src=weight.reshape((1, d)).broadcast(0, n))
    squares, total = nl.ndarray((n, d), dtype=nl.float32, buffer=nl.sbuf), nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=rows, reduce_op=nl.add, reduce_res=total)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / d, op1=nl.add, operand1=EPS)
    nisa.activation(dst=total, op=nl.rsqrt, data=total)
    result = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=result, data=rows, op0=nl.multiply, operand0=total, op1=nl.multiply, operand1=scale)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki_op("example::rmsnorm", mutates_args={})
def kernel_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return rmsnorm(x, weight)


def backward(ctx, grad):
    x, weight = ctx.saved_tensors
    root = torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)
    scaled = grad * weight
    return root * scaled - x * root**3 * (scaled * x).mean(-1, keepdim=True), (grad * x * root).sum(0)


kernel_norm.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


def plain_norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * weight


class Model(torch.nn.Module):
    def __init__(self, norm, width=128):
        super().__init__()
        self.norm, self.weight = norm, torch.nn.Parameter(torch.ones(width))
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x, self.weight))))


def train(norm, steps=5):
    torch.manual_seed(0)
    model, x, wanted = Model(norm), torch.randn(64, 128), torch.randn(64, 128)
    compiled = torch.compile(model, backend="neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(compiled(x), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    ours, theirs = train(kernel_norm), train(plain_norm)
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"five steps with the kernel: loss {ours[0]:.4f} to {ours[-1]:.4f}; with plain torch the same within {worst:.1e}")
    assert worst < 1e-4 and ours[-1] < ours[0]


if __name__ == "__main__":
    main()
