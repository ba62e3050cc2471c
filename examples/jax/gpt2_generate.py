"""GPT-2 of the small size, with random weights, writes tokens one by one: a compiled loop with its cache in place."""

import argparse
import time

import jax
import numpy as np

from trine import models


def main(config, prompt_length, count):
    model = models.build(config)
    params = model.init(jax.random.key(0))
    prompt = jax.random.randint(jax.random.key(1), (1, prompt_length), 0, model.settings.vocab)
    written = jax.jit(lambda p, t: model.generate(p, t, count))
    tokens = np.asarray(written(params, prompt))
    start = time.perf_counter()
    jax.block_until_ready(written(params, prompt))
    seconds = time.perf_counter() - start
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        want = np.asarray(jax.jit(lambda p, t: model.generate(p, t, count))(*jax.device_put((params, prompt), cpu)))
    print(f"{count} tokens after {prompt_length} in {seconds:.2f} s, {count / seconds:.1f} tokens/s: {tokens[0, :8]} ...")
    if not (tokens == want).all():
        raise SystemExit(f"tokens differ from JAX's CPU backend: {tokens[0]} and {want[0]}")
    return tokens


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: gpt2_generate.py --count 32")
    options.add_argument("--prompt", type=int, default=64, help="tokens in the prompt")
    options.add_argument("--count", type=int, default=16, help="tokens to write")
    options.add_argument("--tiny", action="store_true", help="two narrow layers instead of twelve")
    given = options.parse_args()
    tiny = dict(n_layer=2, n_embd=64, n_head=4, n_inner=128, vocab_size=500)
    main(models.load_config("gpt2") | (tiny if given.tiny else {}), given.prompt, given.count)
