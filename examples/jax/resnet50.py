"""ResNet-50 classifies images of 224 x 224."""

import argparse

import jax
from checking import compare, report

from trine.models import resnet


def main(config, batch, size, limit=5e-5):
    params = resnet.init(config, jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (batch, size, size, 3))
    logits, error, seconds = compare(lambda p, x: resnet.forward(p, config, x), params, images, repeats=2)
    report(f"ResNet of {3 * sum(config.depths) + 2} layers, {batch} x {size}x{size}", error, seconds, limit)
    return logits


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: resnet50.py --batch 8")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--size", type=int, default=224)
    options.add_argument("--tiny", action="store_true", help="fourteen narrow layers")
    given = options.parse_args()
    config = resnet.ResNetConfig(depths=(1, 1, 1, 1), width=8, classes=10) if given.tiny else resnet.ResNetConfig()
    main(config, given.batch, given.size)
