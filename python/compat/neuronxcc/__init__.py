"""The name `neuronxcc` that kernels of SDK 2.26 and before import; only its `nki` is here.

Importing Neuron's compiler adds a level to `logging` that scripts then use: `logging.disable(logging.OFF)`.
"""

import logging

if not hasattr(logging, "OFF"):
    logging.OFF = logging.CRITICAL + 10
    logging.addLevelName(logging.OFF, "OFF")
