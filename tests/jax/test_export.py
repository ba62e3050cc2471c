"""Programs written out by jax.export and read again, with sizes left open: the values are those of the call itself."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
import pytest
from jax import export

A = np.stack([np.array([[4, 1, 0], [1, 5, 2], [0, 2, 6]], np.float32)] * 2)

LINALG = {
    "cholesky": jnp.linalg.cholesky,
    "qr": lambda x: jnp.linalg.qr(x)[1],
    "eigh": lambda x: jnp.linalg.eigh(x)[0],
    "eig": lambda x: jnp.abs(jnp.linalg.eig(x)[0]),
    "svd": lambda x: jnp.linalg.svd(x)[1],
    "lu": jax.lax.linalg.lu,
    "solve": lambda x: jnp.linalg.solve(x, x[..., :1]),
    "schur": lambda x: sl.schur(x)[0],
    "hessenberg": sl.hessenberg,
    "tridiagonal": lambda x: jax.lax.linalg.tridiagonal(x)[1],
    "pivoted qr": lambda x: sl.qr(x, pivoting=True)[1],
}


@pytest.mark.parametrize("dims", ["2, 3, 3", "batch, 3, 3"])
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name, dims):
    written = export.export(jax.jit(LINALG[name]))(*export.symbolic_args_specs((A,), [dims])).serialize()
    got = jax.tree.leaves(export.deserialize(written).call(A))
    for a, b in zip(got, jax.tree.leaves(LINALG[name](A)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_sizes_of_matrices_left_open():
    f = jax.jit(lambda x: jnp.linalg.svd(x, full_matrices=False))
    exported = export.export(f)(*export.symbolic_args_specs((A,), ["b, m, n"]))
    for shape in ((2, 3, 3), (1, 3, 2), (3, 2, 3)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        u, s, vh = exported.call(x)
        np.testing.assert_allclose((u * s[:, None]) @ vh, x, atol=1e-5)


def test_a_written_program_is_compiled_ahead_of_time(tmp_path):
    path, out = tmp_path / "model.stablehlo", tmp_path / "model.trn"
    path.write_bytes(export.export(jax.jit(lambda a: jnp.tanh(a @ a.T)))(jax.ShapeDtypeStruct((8, 8), jnp.float32)).serialize())
    for content, code in ((path.read_bytes(), 0), (path.read_bytes()[:-900], 3)):
        path.write_bytes(content)
        done = subprocess.run(["trine", "compile", path, "-o", out, "--instance", "trn1.2xlarge"], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "NCC_" in done.stderr and "neither StableHLO text nor MLIR bytecode" in done.stderr


# Written for a mesh of one device, and read where data lie over two; written with the annotations of GSPMD.
OVER_TWO = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
from jax import export, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def mesh(n):
    return Mesh(np.array(jax.devices()[:n]), ("x",))
over = NamedSharding(mesh(2), P("x"))
x = jax.device_put(np.arange(8, dtype=np.float32), over)
def write(f, like):
    return export.export(f)(like).serialize()
def read(written):
    return np.asarray(export.deserialize(bytearray(written)).call(x)).tolist()
if sys.argv[1] == "write":
    jax.config.update("jax_use_shardy_partitioner", False)
    def moved(v):
        return lax.with_sharding_constraint(v.reshape(2, 4) * 2, NamedSharding(mesh(2), P(None, "x"))).sum(0)
    summed = jax.shard_map(lambda v: lax.psum(v, "x"), mesh=mesh(2), in_specs=P("x"), out_specs=P())
    for name, f in (("moved", moved), ("summed", summed)):
        open(f"{sys.argv[2]}/{name}", "wb").write(write(jax.jit(f), jax.ShapeDtypeStruct((8,), jnp.float32, sharding=over)))
    print(json.dumps(None))
else:
    one = write(jax.jit(lambda v: v * 2 + v.sum(), in_shardings=NamedSharding(mesh(1), P("x"))), jnp.zeros(8))
    print(json.dumps([read(one), *(read(open(f"{sys.argv[2]}/{name}", "rb").read()) for name in ("moved", "summed"))]))
"""


def test_a_program_of_one_device_and_programs_of_gspmd_over_two(tmp_path):
    for what in ("write", "read"):
        done = subprocess.run([sys.executable, "-c", OVER_TWO, what, tmp_path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    x = np.arange(8)
    wanted = [x * 2 + x.sum(), x.reshape(2, 4).sum(0) * 2, x[:4] + x[4:]]
    assert json.loads(done.stdout) == [v.tolist() for v in wanted]
