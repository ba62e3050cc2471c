"""BERT-base encodes a batch of sentences of 128 tokens."""

import argparse

import jax
from checking import compare, report

from trine.models import encoder


def main(config, batch, seq, limit=2e-5):
    params = encoder.init(config, jax.random.key(0))
    tokens = jax.random.randint(jax.random.key(1), (batch, seq), 0, config.vocab)
    hidden, error, seconds = compare(lambda p, t: encoder.forward(p, config, t), params, tokens, repeats=3)
    report(f"BERT, {config.layers} layers, {batch} x {seq}", error, seconds, limit)
    return hidden


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: bert.py --batch 8")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--seq", type=int, default=128)
    options.add_argument("--tiny", action="store_true", help="two layers instead of twelve")
    given = options.parse_args()
    main(encoder.bert_tiny() if given.tiny else encoder.bert_base(), given.batch, given.seq)
