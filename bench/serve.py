"""The engine against llama.cpp on the same GGUF file, threads and prompts, by rounds: tokens a second of one client, time to the
first token of a 512-token prompt, and of one whose prefix is known. Least times of several rounds; ratios above one: ours is faster.

llama-cpp-python is built from source and is not among the requirements: pip install llama-cpp-python. Without it ours alone is shown.
"""

import os
import sys
import time

import numpy as np

THREADS = int(os.environ.get("TRINE_THREADS") or len(os.sched_getaffinity(0)))
os.environ["TRINE_THREADS"] = str(THREADS)

from trine import _core  # noqa: E402
from trine.serve import model  # noqa: E402

NEW, PROMPT, ROUNDS = 64, 512, 5


class Ours:
    def __init__(self, path):
        prepared = model.prepare(str(path), context=2048)
        self.vocab = prepared.vocab
        self.engine = _core.serve.Engine(prepared, {"pages": 1024, "mixed_chunk": 64})

    def run(self, prompts, new):
        """(seconds to the first token of the first, seconds to the end, tokens)"""
        begin, first, left, tokens = time.perf_counter(), None, len(prompts), 0
        for p in prompts:
            self.engine.add({"prompt": p, "max_tokens": new, "temperature": 0.0, "ignore_eos": True})
        while left:
            for event in self.engine.wait(60):
                first = first or (time.perf_counter() - begin if event["kind"] == "token" else None)
                tokens += event["kind"] == "token"
                left -= event["kind"] == "finished"
        return first, time.perf_counter() - begin, tokens


class LlamaCpp:
    def __init__(self, path):
        import llama_cpp

        self.llama = llama_cpp.Llama(str(path), n_ctx=2048, n_threads=THREADS, n_threads_batch=THREADS, verbose=False, logits_all=False)

    def run(self, prompts, new):
        """Requests one after the other: its Python server has one slot."""
        begin, first, tokens = time.perf_counter(), None, 0
        for p in prompts:
            self.llama.reset()
            for i, _ in enumerate(self.llama.generate(p, temp=0.0, reset=True)):
                first = first or time.perf_counter() - begin
                tokens += 1
                if i + 1 == new:
                    break
        return first, time.perf_counter() - begin, tokens


def prompts_of(random, count, length, vocab):
    return [random.integers(100, vocab - 100, length).tolist() for _ in range(count)]


def measured(sides):
    """{row: {side: least seconds or most tokens a second}}, sides by rounds."""
    random = np.random.default_rng(0)
    rows = {"one client, tokens/s": {}, "four clients, tokens/s": {}, f"first token of {PROMPT}, ms": {}, "known prefix, ms": {}}
    for _ in range(ROUNDS):
        short, four, long = prompts_of(random, 1, 16, 49000), prompts_of(random, 4, 16, 49000), prompts_of(random, 1, PROMPT, 49000)
        for name, side in sides.items():
            first, total, tokens = side.run(short, NEW)
            keep(rows["one client, tokens/s"], name, (tokens - 1) / (total - first), max)
            _, total, tokens = side.run(four, NEW)
            keep(rows["four clients, tokens/s"], name, tokens / total, max)
            keep(rows[f"first token of {PROMPT}, ms"], name, side.run(long, 1)[0] * 1e3, min)
            if name == "ours":
                keep(rows["known prefix, ms"], name, side.run(long, 1)[0] * 1e3, min)
    return rows


def keep(row, name, value, better):
    row[name] = better(row.get(name, value), value)


def main():
    path = model.find(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
    sides = {"ours": Ours(path)}
    try:
        sides["llama.cpp"] = LlamaCpp(path)
    except ImportError:
        print("llama-cpp-python is not installed: ours alone", file=sys.stderr)
    print(f"{path.name}, {THREADS} threads, {NEW} new tokens, best of {ROUNDS} rounds")
    for row, found in measured(sides).items():
        ours, theirs = found["ours"], found.get("llama.cpp")
        ratio = "" if theirs is None else f"   {ours / theirs if row.endswith('/s') else theirs / ours:.2f}×"
        print(f"  {row:28} ours {ours:8.1f}" + ("" if theirs is None else f"   llama.cpp {theirs:8.1f}") + ratio)


if __name__ == "__main__":
    main()
