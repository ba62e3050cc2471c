"""JAX functions with random arguments give what XLA's CPU backend gives. `--differential N` sets the cases per row."""

import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

sys.path.insert(0, str(Path(__file__).parent))
import differential  # noqa: E402


@pytest.mark.parametrize("name", sorted(differential.table()))
def test_row(name, request):
    row = differential.table()[name]
    device, cpu = jax.devices("neuron")[0], jax.devices("cpu")[0]
    for seed in range(request.config.getoption("--differential")):
        args = differential.arguments(row, seed)
        try:
            want = differential.run(row, args, cpu)
        except (TypeError, ValueError):
            continue  # JAX itself refuses these arguments
        got = differential.run(row, args, device)
        wrong = differential.difference(row, got, want)
        shapes = [getattr(a, "shape", a) for a in args]
        dtypes = [str(getattr(a, "dtype", "")) for a in args]
        assert not wrong, f"{name}, seed {seed}, {shapes} {dtypes}: {wrong}"
