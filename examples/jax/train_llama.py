"""A small LLaMA learns to write this repository's documentation, byte by byte, on a virtual NeuronCore."""

import argparse
import functools
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from trine import models
from trine.chart import Chart
from trine.models.training import adamw_init

# About two million parameters: learns a page of text in a minute on two cores.
SMALL = dict(model_type="llama", vocab_size=256, num_hidden_layers=4, hidden_size=192, intermediate_size=512,
             num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True)  # fmt: skip
ROOT = pathlib.Path(__file__).resolve().parents[2]


def text():
    """The bytes of the repository's own pages."""
    pages = sorted(ROOT.glob("docs/*.md")) + [ROOT / "README.md"]
    return np.frombuffer(b"\n".join(page.read_bytes() for page in pages), np.uint8).astype(np.int32)


def batches(data, batch, seq, seed=0):
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(0, len(data) - seq - 1, batch)
        rows = np.stack([data[s : s + seq + 1] for s in starts])
        yield rows[:, :-1], rows[:, 1:]


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def step(model, params, state, tokens, targets):
    return model.train_step(params, state, {"tokens": tokens, "labels": targets}, 2e-3)


def train(device, model, batch, seq, steps=None, seconds=None, say=None):
    """Losses, and the seconds each step took, on a device."""
    with jax.default_device(device):
        params = model.init(jax.random.key(0))
        state = adamw_init(params)
        losses, times = [], []
        start = last = time.perf_counter()
        for tokens, targets in batches(text(), batch, seq):
            params, state, loss = step(model, params, state, jnp.asarray(tokens), jnp.asarray(targets))
            losses.append(float(loss))
            now = time.perf_counter()
            times.append(now - last)
            if say and (len(losses) == 1 or len(losses) % 20 == 0):
                rate = batch * seq / float(np.median(times[-20:]))
                say(f"  step {len(losses):4}  loss {losses[-1]:.3f}  {rate:,.0f} tokens/s")
            last = time.perf_counter()
            if (steps and len(losses) >= steps) or (seconds and last - start >= seconds):
                return losses, times


def draw(path, curves):
    """The curves as one SVG picture."""
    page = Chart("loss by step", 680, 380, left=64, top=76)
    page.legend(64, 46, list(zip(("first", "second"), curves)))
    across = page.across(max(len(c) for c in curves.values()) - 1, "step")
    up = page.up(max(max(c) for c in curves.values()), "loss")
    for kind, curve in zip(("first", "second"), curves.values()):
        page.curve(kind, [(across(x), up(y)) for x, y in enumerate(curve)], dashed=kind == "second")
    pathlib.Path(path).write_text(page.svg())


def main(given):
    device, cpu = jax.devices()[0], jax.devices("cpu")[0]
    model = models.build(SMALL)
    print(f"training on {device.device_kind} ({device.platform}:{device.id}), batch {given.batch} of {given.seq} bytes")
    losses, times = train(device, model, given.batch, given.seq, given.steps, given.seconds, print)
    stats = device.memory_stats() or {}
    rate = given.batch * given.seq / float(np.median(times))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} steps, {rate:,.0f} tokens/s, device memory "
          f"{stats.get('peak_bytes_in_use', 0) / 1e6:.0f} MB at the peak of "
          f"{stats.get('bytes_limit', 0) / 1e9:.1f} GB")  # fmt: skip
    same = min(given.compare, len(losses))
    want, _ = train(cpu, model, given.batch, given.seq, steps=max(1, same))
    worst = float(np.abs(np.subtract(losses[: len(want)], want)).max())  # NaN where one is
    print(f"the CPU backend's losses over the first {same} steps differ by at most {worst:.4f}")
    if given.picture:
        draw(given.picture, {f"{device.device_kind}": losses, "JAX on the CPU": want})
        print(f"wrote {given.picture}")
    if not worst <= 0.05 or not losses[-1] < losses[0]:
        raise SystemExit("the losses do not fall as on JAX's CPU backend")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: train_llama.py --seconds 60 --picture l.svg")
    options.add_argument("--steps", type=int, help="stop after so many steps")
    options.add_argument("--seconds", type=float, help="stop after so long; 60 where neither is given")
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--seq", type=int, default=128)
    options.add_argument("--compare", type=int, default=20, help="steps to repeat on the CPU backend")
    options.add_argument("--picture", help="write the loss curves to this SVG file")
    given = options.parse_args()
    if not given.steps and not given.seconds:
        given.seconds = 60
    main(given)
