"""The engine against llama.cpp on the same GGUF file, threads and prompts, in turns: tokens a second of one client and of four, time
to the first token of a 512-token prompt and of one whose prefix is known. Then ours alone: the gaps between tokens while prompts
come in, while adapters are swapped, and what a schema adds to a token. Least times of several rounds; ratios above one: ours is faster.

CLOCK=cpu counts the process's processor time instead of the wall's, which on one thread is what an idle machine would show: for machines
that others use. llama-cpp-python is built from source and is not among the requirements: pip install llama-cpp-python. Without it ours alone is shown.
"""

import ctypes
import os
import sys
import time

import numpy as np

THREADS = int(os.environ.get("TRINE_THREADS") or len(os.sched_getaffinity(0)))
os.environ["TRINE_THREADS"] = str(THREADS)

from trine import _core  # noqa: E402
from trine.serve import model  # noqa: E402

now = time.process_time if os.environ.get("CLOCK") == "cpu" else time.perf_counter
NEW, PROMPT, ROUNDS, CONTEXT = 64, 512, int(os.environ.get("ROUNDS") or 5), 2048
SCHEMA = {"type": "object", "required": ["items"], "additionalProperties": False, "properties": {"items": {
    "type": "array", "minItems": 40, "items": {"type": "object", "required": ["name", "price"], "additionalProperties": False, "properties": {
        "name": {"type": "string", "maxLength": 12}, "price": {"type": "integer", "minimum": 0, "maximum": 999}}}}}}  # fmt: skip


class Ours:
    def __init__(self, path):
        self.prepared = model.prepare(str(path), context=CONTEXT)
        self.engine = _core.serve.Engine(self.prepared, {"pages": 1024})

    def add(self, prompt, new, **more):
        return self.engine.add({"prompt": prompt, "max_tokens": new, "temperature": 0.0, "ignore_eos": True} | more)

    def run(self, prompts, new):
        """(seconds to the first token of the first, seconds to the end, tokens)"""
        begin, first, left, tokens = now(), None, len(prompts), 0
        for p in prompts:
            self.add(p, new)
        while left:
            for event in self.engine.wait(60):
                first = first or (now() - begin if event["kind"] == "token" else None)
                tokens += event["kind"] == "token"
                left -= event["kind"] == "finished"
        return first, now() - begin, tokens


class LlamaCpp:
    """`server`: one request after the other, as the package's Python server answers; else all in one batch by its C interface,
    which is what its C++ server does with slots."""

    def __init__(self, path, server):
        import llama_cpp

        self.api, self.server = llama_cpp, server
        self.llama = llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_batch=PROMPT, n_threads=THREADS, n_threads_batch=THREADS, verbose=False)
        settings = self.llama.context_params
        settings.n_seq_max = 4
        self.slots = self.llama.ctx if server else llama_cpp.llama_init_from_model(self.llama.model, settings)

    def run(self, prompts, new):
        if not self.server:
            return self.batched(prompts, new)
        begin, first, tokens = now(), None, 0
        for p in prompts:
            self.llama.reset()
            for i, _ in enumerate(self.llama.generate(p, temp=0.0, reset=True)):
                first = first or now() - begin
                tokens += 1
                if i + 1 == new:
                    break
        return first, now() - begin, tokens

    def batched(self, prompts, new):
        api, ctx, vocab = self.api, self.slots, self.llama.n_vocab()
        api.llama_memory_clear(api.llama_get_memory(ctx), True)
        batch = api.llama_batch_init(PROMPT, 0, 1)
        begin, first, tokens = now(), None, 0
        rows = [(t, i, s, i + 1 == len(p)) for s, p in enumerate(prompts) for i, t in enumerate(p)]
        at = [len(p) for p in prompts]
        while tokens < new * len(prompts):
            for i, (token, place, sequence, wanted) in enumerate(rows):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, place, 1, wanted
                batch.seq_id[i][0] = sequence
            batch.n_tokens = len(rows)
            if api.llama_decode(ctx, batch):
                raise RuntimeError("llama_decode failed")
            wanted, rows = [(i, row[2]) for i, row in enumerate(rows) if row[3]], []
            for i, sequence in wanted:
                logits = np.ctypeslib.as_array(ctypes.cast(api.llama_get_logits_ith(ctx, i), ctypes.POINTER(ctypes.c_float)), (vocab,))
                rows.append((int(logits.argmax()), at[sequence], sequence, True))
                at[sequence] += 1
            tokens += len(rows)
            first = first or now() - begin
        api.llama_batch_free(batch)
        return first, now() - begin, tokens


def prompts_of(random, count, length, vocab=49000):
    return [random.integers(100, vocab - 100, length).tolist() for _ in range(count)]


def measured(sides):
    """{row: {side: least seconds or most tokens a second}}, sides by rounds."""
    random = np.random.default_rng(0)
    rows = {"one client, tokens/s": {}, "four clients, tokens/s": {}, f"first token of {PROMPT}, ms": {}, "known prefix, ms": {}}
    for _ in range(ROUNDS):
        short, four, long = prompts_of(random, 1, 16), prompts_of(random, 4, 16), prompts_of(random, 1, PROMPT)
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


# ---- ours alone


def gaps_while(ours, streams, new, meanwhile):
    """Milliseconds between the tokens of each of `streams` answers; meanwhile(tokens so far): what else is asked, once a token."""
    random = np.random.default_rng(1)
    mine = {ours.add(p, new): [] for p in prompts_of(random, streams, 16)}
    left, written = len(mine), 0
    while left:
        for event in ours.engine.wait(60):
            if event["id"] in mine and event["kind"] == "token":
                mine[event["id"]].append(now())
                written += 1
                meanwhile(written)
            left -= event["id"] in mine and event["kind"] == "finished"
    return np.concatenate([np.diff(times) for times in mine.values()]) * 1e3


def mixed(ours):
    """Two clients write while prompts of 512 tokens come in, one after the other."""
    random = np.random.default_rng(2)
    return gaps_while(ours, 2, 200, lambda written: ours.add(prompts_of(random, 1, PROMPT)[0], 1) if written % 60 == 0 else None)


def adapter_of(shape, rank=16, seed=3):
    random, width = np.random.default_rng(seed), shape["width"]
    queries, keys = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    made = {}
    for i in range(len(shape["layers"])):
        for name, outputs in (("q", queries), ("v", keys)):
            made[f"layers.{i}.{name}.a"] = random.normal(0, 0.02, (rank, width)).astype(np.float32)
            made[f"layers.{i}.{name}.b"] = random.normal(0, 0.02, (outputs, rank)).astype(np.float32)
    return made


def swapped(ours):
    """Two clients write while an adapter of rank 16 is loaded, used and dropped again and again."""
    made, loaded = adapter_of(ours.prepared.shape), []

    def swap(written):
        if written % 20:
            return
        if loaded:
            ours.engine.drop_adapter(loaded.pop())
        loaded.append(f"swap{written}")
        ours.engine.load_adapter(loaded[-1], made, 1.0)
        ours.add(list(range(100, 108)), 4, adapter=loaded[-1])

    found = gaps_while(ours, 2, 150, swap)
    ours.engine.drop_adapter(loaded.pop())
    return found


def schema_cost(ours, path):
    """(ms of a token under a schema, ms of a token without), in turns."""
    from trine.serve import grammar, text

    grammars = grammar.Grammars(text.load(path))
    made, bits = grammar.of_schema(SCHEMA), (grammars.text.size + 7) // 8
    best = [1e9, 1e9]
    for _ in range(ROUNDS):
        for which in (0, 1):
            begin, first, tokens, left = now(), None, 0, 1
            matcher = None if which else grammars.matcher(made)
            ours.add(list(range(200, 216)), NEW, constrained=not which)
            while left:
                for event in ours.engine.wait(60):
                    if event["kind"] == "mask":
                        ours.engine.mask(event["id"], event["choice"], matcher.mask(event["tokens"])[:bits])
                    if event["kind"] == "token":
                        first, tokens = first or now(), tokens + 1
                    left -= event["kind"] == "finished"
            best[which] = min(best[which], (now() - first) / max(1, tokens - 1) * 1e3)
    return best


def alone(ours, path):
    for name, gaps in (("prompts come in", mixed(ours)), ("adapters are swapped", swapped(ours)), ("nothing else", gaps_while(ours, 2, 150, lambda written: None))):
        half, most = np.percentile(gaps, (50, 99))
        print(f"  gaps while {name:22} p50 {half:6.1f} ms   p99 {most:6.1f} ms   {most / half:.2f}×   longest {gaps.max():6.1f} ms")
    schema, without = schema_cost(ours, path)
    print(f"  a token under a schema {schema:.2f} ms, without {without:.2f} ms: {100 * (schema / without - 1):+.1f} %")


def main():
    path = model.find(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
    sides = {"ours": Ours(path)}
    try:
        sides |= {"llama.cpp": LlamaCpp(path, False), "its Python server": LlamaCpp(path, True)}
    except ImportError:
        print("llama-cpp-python is not installed: ours alone", file=sys.stderr)
    print(f"{path.name}, {THREADS} threads, {NEW} new tokens, best of {ROUNDS} rounds, {'processor' if now is time.process_time else 'wall'} time, load {os.getloadavg()[0]:.1f}")
    for row, found in measured(sides).items():
        ours = found["ours"]
        others = [f"   {n} {v:8.1f} ({ours / v if row.endswith('/s') else v / ours:.2f}×)" for n, v in found.items() if n != "ours"]
        print(f"  {row:28} ours {ours:8.1f}" + "".join(others))
    alone(sides["ours"], path)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
