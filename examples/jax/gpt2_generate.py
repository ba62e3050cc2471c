"""GPT-2 small writes tokens after a prompt: a prefill, then one compiled loop with its cache updated in place."""

import argparse
import time
from dataclasses import replace

import jax
import numpy as np

from trine.models import decoder


def main(config, prompt_length, count):
    params = decoder.init(config, jax.random.key(0))
    prompt = jax.random.randint(jax.random.key(1), (1, prompt_length), 0, config.vocab)
    written = jax.jit(lambda p, t: decoder.generate(p, config, t, count))
    tokens = np.asarray(written(params, prompt))
    start = time.perf_counter()
    jax.block_until_ready(written(params, prompt))
    seconds = time.perf_counter() - start
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        want = np.asarray(jax.jit(lambda p, t: decoder.generate(p, config, t, count))(
            *jax.device_put((params, prompt), cpu)))  # fmt: skip
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
    config = decoder.gpt2_small()
    if given.tiny:
        config = replace(config, layers=2, width=64, heads=4, ffn=128, vocab=500)
    main(config, given.prompt, given.count)
