"""Our reader against jaxlib's, program by program: ops, attributes, types, constants, locations, regions.

What we read is printed, jaxlib parses that, and must print what it prints of its own reading of the same bytes.
"""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="jax is not installed; stored artifacts are read all the same")

from front.stablehlo import corpus, oracle  # noqa: E402

WRITTEN = {path.stem: path for path in (Path(__file__).parent / "data").glob("*.mlir")}


@pytest.fixture(params=[*corpus.PROGRAMS, *WRITTEN])
def name(request):
    return request.param


@pytest.fixture
def module(name):
    if name in WRITTEN:
        return oracle.parse(WRITTEN[name].read_text())
    return corpus.lower(name).compiler_ir("stablehlo")


@pytest.fixture
def read(trine):
    """Bytes or text through our reader and printer. Its name is -, as jaxlib calls a text."""

    def run(data, *options):
        data = data.encode() if isinstance(data, str) else data
        done = subprocess.run([trine, "shlo", "-", *options], input=data, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    return run


def same(ours, theirs):
    assert ours.split("\n") == theirs.split("\n")


def test_portable_artifact(name, module, read):
    if name == "collectives":
        pytest.skip("Shardy's collectives cannot be in a portable artifact")
    artifact = oracle.portable(module)
    same(oracle.generic(oracle.parse(read(artifact))), oracle.generic(oracle.from_portable(artifact)))


def test_bytecode(module, read):
    same(oracle.generic(oracle.parse(read(oracle.bytecode(module)))), oracle.generic(module))


def test_generic_text(module, read):
    same(read(oracle.generic(module)), read(oracle.bytecode(module)))


def test_short_text(module, read):
    text = oracle.pretty(module)  # leaves out empty attributes, so it is compared with what it says itself
    same(read(text), read(oracle.bytecode(oracle.parse(text))))


def test_locations(module, read):
    data = oracle.bytecode(module)  # which does not keep every column
    ours = read(data, "--locations")
    same(oracle.generic(oracle.parse(ours), locations=True), oracle.generic(oracle.parse(data), locations=True))
    text = oracle.pretty(oracle.parse(data), locations=True)
    same(read(text, "--locations"), read(oracle.bytecode(oracle.parse(text)), "--locations"))


@pytest.mark.parametrize("version", ["1.6.0", "1.9.0", "1.13.0", "1.17.0"])
def test_other_versions(version, read, monkeypatch):
    """1.10 is what we ask for; artifacts of its neighbours are read too."""
    monkeypatch.setattr(oracle, "VERSION", version)
    for name in ["elementwise_float32", "dot", "conv", "sorting", "gathers", "linalg", "shard_map"]:
        artifact = oracle.portable(corpus.lower(name).compiler_ir("stablehlo"))
        same(oracle.generic(oracle.parse(read(artifact))), oracle.generic(oracle.from_portable(artifact)))
