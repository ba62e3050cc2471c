"""Buckets from traffic: which sizes of programs a log of requests needs, what padding they waste, and what fewer would save.

A program per bucket is compiled and held in memory; a request takes the smallest that holds it. With k buckets the least
padding is found exactly, by dynamic programming over the sizes that occur.
"""

import json
import sys

import numpy as np

GRAIN = 16  # tokens: a page; sizes are whole pages
KINDS = 512  # sizes between which is chosen: more are put together


def plan(lengths, most):
    """([sizes], padded tokens) of at most `most` buckets over the lengths."""
    sizes, counts = np.unique(-(-np.asarray(lengths, np.int64) // GRAIN) * GRAIN, return_counts=True)
    while len(sizes) > KINDS:
        odd = sizes[1::2]
        counts = np.add.reduceat(counts, np.arange(0, len(counts), 2))
        sizes = odd if len(odd) == len(counts) else np.append(odd, sizes[-1])
    total = np.concatenate([[0], np.cumsum(counts)])
    weight = np.concatenate([[0], np.cumsum(counts * sizes)])
    n = len(sizes)
    best = np.full((most + 1, n + 1), np.inf)
    best[0, 0] = 0
    cut = np.zeros((most + 1, n + 1), np.int64)
    for k in range(1, most + 1):
        for j in range(1, n + 1):
            # The last bucket holds sizes i to j - 1, all padded to the largest of them.
            cost = best[k - 1, :j] + sizes[j - 1] * (total[j] - total[:j]) - (weight[j] - weight[:j])
            cut[k, j] = int(np.argmin(cost))
            best[k, j] = cost[cut[k, j]]
    k = int(np.argmin(best[1:, n])) + 1
    chosen, j, padded = [], n, best[k, n]
    while j:
        chosen.append(int(sizes[j - 1]))
        j, k = int(cut[k, j]), k - 1
    return chosen[::-1], int(padded)


def report(lengths, most=6):
    """Rows of (buckets, their sizes, padded tokens, share of all work that is padding), one for each number of buckets."""
    useful = int(np.sum(-(-np.asarray(lengths, np.int64) // GRAIN) * GRAIN))
    rows = []
    for k in range(1, most + 1):
        sizes, padded = plan(lengths, k)
        rows.append({"buckets": len(sizes), "sizes": sizes, "padded_tokens": padded, "padding": padded / max(1, useful + padded)})
        if padded == 0:
            break
    return rows


def lengths_of(path):
    """Prompt lengths of a traffic log: as `trine bench serve --trace` reads it."""
    from trine.serve.twin import read

    return read(path)[1]


def show(path, as_json=False):
    """Prints the report of a log: `trine serve --plan-buckets`."""
    lengths = lengths_of(path)
    rows = report(lengths)
    if as_json:
        json.dump({"version": 1, "requests": len(lengths), "rows": rows}, sys.stdout)
        print()
        return 0
    print(f"{path}: {len(lengths):,} prompts, {int(lengths.sum()):,} tokens\n\nbuckets  sizes{' ' * 35}  padding   saves")
    before = None
    for row in rows:
        sizes = ", ".join(map(str, row["sizes"]))
        saves = "" if before is None else f"{(before - row['padded_tokens']) / max(1, int(lengths.sum())):8.1%} of all tokens"
        print(f"{row['buckets']:7}  {sizes:40}  {row['padding']:7.1%}  {saves}")
        before = row["padded_tokens"]
    return 0
