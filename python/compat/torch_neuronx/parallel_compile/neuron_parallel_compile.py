"""torch_neuronx.parallel_compile.neuron_parallel_compile, the command."""

import sys

from trine.torch.old.parallel_compile import main

if __name__ == "__main__":
    sys.exit(main())
