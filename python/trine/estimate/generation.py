"""A whole answer of a decoder: the prompt, then one token after the other with a cache that grows.

A decode step's time is linear in the cache it reads, so two programs give all of them: the cache as long as the first
step's and as the last one's. Programs are compiled for caches of a few lengths (buckets, powers of two, and the whole
length), and a step reads all of its bucket.
"""

import dataclasses

from trine.estimate import calibration, cores, experts, neuron

BUCKET_LEAST = 128  # tokens: the partitions that a tile of keys lies on, so that a shorter cache would take as long


def bucket(length, most):
    """The length a program was compiled for that holds `length` tokens."""
    size = BUCKET_LEAST
    while size < length:
        size *= 2
    return min(size, most)


def generated(answer, run, batch, seq, new_tokens):
    """answer: of the prefill or of the last decode step; the other is computed here."""
    most = seq + new_tokens

    def step(length):
        if answer.phase == "decode" and length == answer.seq:
            return answer
        return _answer(answer, run, "decode", batch, length)

    first = answer if answer.phase == "prefill" else _answer(answer, run, "prefill", batch, seq)
    shortest = bucket(seq + 1, most)
    short, long = step(shortest), step(most)
    share = 0.0 if shortest == most else 1 / (most - shortest)
    times = []
    for position in range(seq + 1, most):  # the prefill has written the first
        at = (bucket(position + 1, most) - shortest) * share
        times.append(short.likely_ms * (1 - at) + long.likely_ms * at)
    total = first.likely_ms + sum(times)
    times.sort()
    return {
        "prompt": seq,
        "new_tokens": new_tokens,
        "first_token_ms": first.likely_ms,
        "token_ms": times[len(times) // 2] if times else 0.0,
        "last_token_ms": long.likely_ms,
        "total_ms": total,
        "tokens_per_s": answer.batch * new_tokens / total * 1e3,
        "tokens_per_s_instance": answer.copies * answer.batch * new_tokens / total * 1e3,
    }


def _answer(like, run, phase, batch, length):
    found, size = run(phase, batch, length), 4 if like.dtype == "float32" else 2
    return dataclasses.replace(
        like,
        phase=phase,
        seq=length,
        kind=calibration.kind_of("decoder", phase, batch, length),
        runs=[(found, 1)],
        collectives=cores.collectives(found.uses, like.layout),
        results=like.batch * (length if phase == "prefill" else 1),
        unfused_ms=neuron.unfused_ms(run.args[0], phase, batch, length, like.layout, like.sdk),
        norms_ms=neuron.norms_ms(run.args[0], phase, batch, length, like.layout, size, like.sdk),
        blocks=experts.in_blocks(run.args[0], phase, batch, length, like.layout, size, like.sdk),
    )
