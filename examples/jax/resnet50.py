"""ResNet-50 classifies images of 224 x 224."""

import argparse

import jax
from checking import compare, report

from trine import models


def main(config, batch, size, limit=5e-5):
    model = models.build(config)
    params = model.init(jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (batch, size, size, 3))
    logits, error, seconds = compare(model.forward, params, {"images": images}, repeats=2)
    report(f"ResNet of {3 * sum(model.settings.depths) + 2} layers, {batch} x {size}x{size}", error, seconds, limit)
    return logits


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: resnet50.py --batch 8")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--size", type=int, default=224)
    options.add_argument("--tiny", action="store_true", help="fourteen narrow layers")
    given = options.parse_args()
    tiny = dict(depths=[1, 1, 1, 1], embedding_size=8, hidden_sizes=[32, 64, 128, 256], num_labels=10)
    main(models.load_config("resnet-50") | (tiny if given.tiny else {}), given.batch, given.size)
