"""Writes data/*.artifact, *.bytecode and what jaxlib reads in them, so that the tests need no jax. Needs jax.

  PYTHONPATH=tests python tests/front/stablehlo/make_data.py
"""

from pathlib import Path

from front.stablehlo import corpus, oracle

DATA = Path(__file__).parent / "data"
NAMES = ["loops", "sorting", "scatters", "conv", "dot", "booleans", "complex_complex64", "small_float8_e4m3fn",
         "integers_int4", "random_bits", "branches", "ffi_call", "pjit", "shard_map"]  # fmt: skip


def main():
    modules = {name: corpus.lower(name).compiler_ir("stablehlo") for name in NAMES}
    for path in DATA.glob("*.mlir"):
        modules[path.stem] = oracle.parse(path.read_text())
    for name, module in modules.items():
        files = {"bytecode": (oracle.bytecode(module), module)}
        if name != "collectives":
            artifact = oracle.portable(module)
            files["artifact"] = (artifact, oracle.from_portable(artifact))
        for kind, (data, read) in files.items():
            (DATA / f"{name}.{kind}").write_bytes(data)
            (DATA / f"{name}.{kind}.txt").write_text(oracle.generic(read))


if __name__ == "__main__":
    main()
