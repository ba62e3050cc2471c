"""A process that uses virtual devices until its time is over: python workload.py torch|jax|nki SECONDS."""

import sys
import time

kind, seconds = sys.argv[1], float(sys.argv[2])
end = time.time() + seconds

if kind == "torch":
    import torch
    import trine  # noqa: F401

    model, x = torch.nn.Linear(256, 512).to("neuron"), torch.randn(64, 256, device="neuron")
    step = lambda: model(x)  # noqa: E731
elif kind == "jax":
    import jax
    import jax.numpy as jnp

    a, product = jnp.ones((256, 256)), jax.jit(lambda a: jnp.tanh(a @ a).sum())
    step = lambda: product(a).block_until_ready()  # noqa: E731
else:
    import numpy as np
    import trine.nki as nki
    import trine.nki.isa as nisa
    import trine.nki.language as nl

    @nki.jit
    def double(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    values = np.ones((128, 512), np.float32)
    step = lambda: nki.simulate(double)(values)  # noqa: E731

step()
print("running", flush=True)
while time.time() < end:
    step()
    time.sleep(0.005)
