"""Modules as tensor graphs: graph/<name>.mlir gives graph/<name>.graph, users' lines included (--update rewrites)."""

import subprocess
from pathlib import Path

import pytest

GRAPHS = Path(__file__).parent / "graph"


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.mlir")), ids=lambda p: p.stem)
def test_graph(trine, golden, path):
    command = [trine, "shlo", path.name, "--graph", "--locations"]
    done = subprocess.run(command, cwd=GRAPHS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    golden(f"graph/{path.stem}.graph", done.stdout)


BODY = """module {{
  func.func public @main(%x: tensor<2xf32>, %p: tensor<i1>) -> tensor<2xf32> {{
    {0}
    return %r : tensor<2xf32>
  }}
}}
"""
REFUSED = {
    '%r = "stablehlo.sparse"(%x) : (tensor<2xf32>) -> tensor<2xf32>': "-:3: there is no op `sparse`",
    "%r = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>": "-:3: func.call: there is no function @f",
    "%r = call @main(%x, %p) : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>": "@main calls itself",
    '%r = "other.op"(%x) : (tensor<2xf32>) -> tensor<2xf32>': "-:3: other.op: an op of this dialect",
    '%r = "stablehlo.scan"(%x) {kind = "add"} : (tensor<2xf32>) -> tensor<2xf32>': "-:3: stablehlo.scan: `scan` is made by the compiler alone",
    '%y = "stablehlo.tanh"(%x) : (tensor<2xf32>) -> tensor<?xf32>': "a size that is not known, in tensor<?xf32>",
    '%y = "stablehlo.tanh"(%x) : (tensor<2xf32>) -> tensor<3xf32>': "tanh(f32[2]) gives f32[2]; f32[3] was declared",
    '%y = "stablehlo.tanh"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>': "takes 1 inputs; 2 given",
    "%c = stablehlo.constant dense<1.0> : tensor<99999999x9999999xf32>": "a tensor of 2^46 bytes or more",
    '%t = "stablehlo.tanh"(%x) : (tensor<2xf32>) -> tuple<tensor<2xf32>>': "tuple<tensor<2xf32>>; graphs hold tensors",
    '%y = "stablehlo.map"(%x) ({}) : (tensor<2xf32>) -> tensor<2xf32>': "stablehlo.map: a region of 0 blocks",
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_refused(trine, line):
    text = BODY.format(line if "%r" in line else f"{line}\n    %r = stablehlo.add %x, %x : tensor<2xf32>")
    done = subprocess.run([trine, "shlo", "-", "--graph"], input=text, capture_output=True, text=True)
    assert done.returncode != 0
    assert REFUSED[line] in done.stderr
