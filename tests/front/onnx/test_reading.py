"""What is around the ops: shapes given by hand, external data, functions, the summary, and errors that name the node."""

import json
import subprocess

import numpy as np
import onnx
import pytest
from front.onnx.checking import check, write_case

HEAD = '<ir_version: 8, opset_import: ["" : 17{0}]> '


def parse(text, more=""):
    return onnx.parser.parse_model(HEAD.format(more) + text)


def run(trine, path, *options):
    return subprocess.run([trine, "onnx", path, *options], capture_output=True, text=True, timeout=60)


@pytest.fixture
def written(tmp_path):
    def write(model):
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)
        return path

    return write


def test_shapes_given(trine, written):
    path = written(parse("g (float[batch, n, 4] x) => (float[] y) { s = Shape (x) z = ConstantOfShape (s) y = Add (x, z) }"))
    refused = run(trine, path, "--print")
    assert refused.returncode == 3
    assert "input `x` is [batch,n,4], and dim 0 is not known; give the shape with `--shape x=1x128`" in refused.stderr
    for shapes in (["--shape", "x=2x3x4"], ["--shape", "batch=2", "--shape", "n=3"]):
        done = run(trine, path, "--print", *shapes)
        assert done.returncode == 0, done.stderr
        assert "f32[2,3,4]" in done.stdout and "shape" not in done.stdout
    assert "dim 2 was given as 5" in run(trine, path, "--print", "--shape", "x=2x3x5").stderr
    assert "expected NAME=1x128" in run(trine, path, "--print", "--shape", "x").stderr


def test_external_data(trine, tmp_path):
    model = parse("g (float[3] x) => (float[] y) <float[3] w = {1, 2, 3}> { y = Add (x, w) }")
    x = np.asarray([1, 1, 1], np.float32)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.asarray([1, 2, 3], np.float32), "w"))
    path = write_case(tmp_path, model, [x], [x + np.asarray([1, 2, 3], np.float32)])
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0, convert_attribute=True)
    model = onnx.load(path, load_external_data=False)
    weight = model.graph.initializer[0]
    assert weight.data_location == onnx.TensorProto.EXTERNAL
    assert check(trine, [path]) == {tmp_path.name: None}
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "link").symlink_to("/etc/passwd")
    out = "expected a file in that folder or below it"
    for wrong, said in (
        *((name, out) for name in ("../w.bin", "/w.bin", "link", "away/passwd")),
        ("none", "cannot open"),
        (".", "it is a folder; expected a file"),
        ("", "expected one in"),
    ):
        next(e for e in weight.external_data if e.key == "location").value = wrong
        path.write_bytes(model.SerializeToString())
        assert said in run(trine, path, "--print").stderr


@pytest.mark.parametrize("dtype", ["FLOAT", "DOUBLE", "COMPLEX64", "COMPLEX128"])
def test_a_weight_whose_numbers_are_in_another_list(trine, written, dtype):
    model = parse("g (float[1] x) => (float[] y) <float[1] w = {1}> { y = Add (x, w) }")
    weight = onnx.TensorProto(name="w", dims=[1], data_type=getattr(onnx.TensorProto, dtype), int64_data=[1])
    model.graph.initializer[0].CopyFrom(weight)
    assert "expected float_data or double_data" in run(trine, written(model), "--print").stderr


def looped(inputs, trips=None, go_on=None, doubles=3):
    """x doubled by a Loop with these inputs, whose body ends it after `doubles` steps; inputs may be left out."""
    h = onnx.helper
    body = h.make_graph(
        [h.make_node("Less", ["i", "last"], ["more"]), h.make_node("Add", ["s", "s"], ["t"])],
        "body",
        [h.make_tensor_value_info("i", onnx.TensorProto.INT64, []), h.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
         h.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [3])],
        [h.make_tensor_value_info("more", onnx.TensorProto.BOOL, []), h.make_tensor_value_info("t", onnx.TensorProto.FLOAT, [3])],
        [h.make_tensor("last", onnx.TensorProto.INT64, [], [doubles - 1])],
    )  # fmt: skip
    constants = [h.make_tensor("M", onnx.TensorProto.INT64, [], [trips or 0]), h.make_tensor("K", onnx.TensorProto.BOOL, [], [bool(go_on)])]
    value = [h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [3]) for n in "xy"]
    graph = h.make_graph([h.make_node("Loop", inputs, ["y"], body=body)], "g", value[:1], value[1:], constants)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])


@pytest.mark.parametrize("inputs,trips,go_on,times", [
    (["M", "", "x"], 2, None, 4), (["", "K", "x"], None, True, 8), (["", "", "x"], None, None, 8), (["M", "K", "x"], 9, True, 8),
    (["M", "K", "x"], 9, False, 1), (["M", "", "x"], 0, None, 1),
])  # fmt: skip
def test_a_loop_may_lack_its_limit_and_its_condition(trine, tmp_path, inputs, trips, go_on, times):
    x = np.asarray([1, 2, 3], np.float32)
    path = write_case(tmp_path, looped(inputs, trips, go_on), [x], [times * x])
    assert check(trine, [path]) == {tmp_path.name: None}


def test_functions(trine, tmp_path):
    text = """g (float[3] x) => (float[] y) { y = local.scale <by = 3.0> (x) }
      <domain: "local", opset_import: ["" : 17]> scale <by> (a) => (b) { c = Constant <value_float: float = @by> () b = Mul (a, c) }"""
    x = np.asarray([1, 2, 3], np.float32)
    path = write_case(tmp_path, parse(text, ', "local" : 1'), [x], [3 * x])
    assert check(trine, [path]) == {tmp_path.name: None}


def test_summary(trine, written):
    path = written(parse("g (float[n] x) => (float[] y) <float[2] w = {1, 2}> { a = Relu (x) b = Nothing (a) y = Add (b, w) }"))
    found = json.loads(run(trine, path, "--json").stdout)
    assert found["opset"] == 17 and found["inputs"] == [{"name": "x", "type": "f32[n]"}] and found["weight_bytes"] == 8
    assert {row["op"]: row["known"] for row in found["ops"]} == {"Add": True, "Relu": True, "Nothing": False}
    assert "Nothing      1  not supported" in run(trine, path).stdout


BODIES = {
    "y = Nothing (x)": "model.onnx: the node of `y`: Nothing: this op is not supported in opset 17",
    "y = other.Op (x)": "other.Op: an op of domain other that the model does not define",
    "y = Add (x, z)": "Add: input `z` is made by no node before it",
    "y = Add (x)": "Add: found 1 inputs; expected 2",
    "y = Concat <axis = 5> (x, x)": "Concat: axis 5 is out of range for 2 dims",
    "y = Softmax <axis = 1.5> (x)": "Softmax: attribute `axis` is of kind 1; expected 2",
    "y = MatMul (x, x)": "MatMul: cannot multiply f32[2,3] by f32[2,3]",
    "s = Cast <to = 7> (x) y = Reshape (x, s)": "Reshape: input 1 (shape, `s`) depends on the model's inputs; expected a constant",
    "y = NonZero (x)": "NonZero: the shape of its result depends on the values of `x`",
    "s = Constant <value = int64[2] {4, 5}> () y = Reshape (x, s)": "reshape(f32[2,3])",
    'y = Resize <mode = "fast"> (x, , , n)': "Resize: mode `fast`; expected nearest, linear or cubic",
    "c = Cast <to = 9> (x) y = If (c) <then_branch = a () => (float[] t) { t = Neg (x) }, else_branch = b () => (float[] e) { e = Neg (x) }>": "If: input 0 is bool[2,3]; expected one element",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_refused(trine, written, body):
    path = written(parse(f"g (float[2,3] x) => (float[] y) <int64[2] n = {{4, 4}}> {{ {body} }}"))
    done = run(trine, path, "--print")
    assert done.returncode in (2, 3)
    assert BODIES[body] in done.stderr


@pytest.mark.parametrize("data", [b"", b"\x00", b"not a model", b"\x3a\xff\xff\xff\xff\x0f"])
def test_no_model(trine, written, data):
    done = run(trine, written(data), "--print")
    assert done.returncode in (2, 3)
    assert "model.onnx" in done.stderr
