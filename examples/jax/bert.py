"""BERT-base encodes a batch of sentences of 128 tokens."""

import argparse

import jax
from checking import compare, report

from trine import models


def main(config, batch, seq, limit=2e-5):
    model = models.build(config)
    params = model.init(jax.random.key(0))
    tokens = jax.random.randint(jax.random.key(1), (batch, seq), 0, model.settings.vocab)
    hidden, error, seconds = compare(model.forward, params, {"tokens": tokens}, repeats=3)
    report(f"BERT, {model.settings.layers} layers, {batch} x {seq}", error, seconds, limit)
    return hidden


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: bert.py --batch 8")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--seq", type=int, default=128)
    options.add_argument("--tiny", action="store_true", help="two layers instead of twelve")
    given = options.parse_args()
    tiny = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512, vocab_size=1000)
    main(models.load_config("bert-base") | (tiny if given.tiny else {}), given.batch, given.seq)
