"""Models with inputs and expected outputs in ONNX's own layout of folders, and `trine onnx --check` over all of them."""

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


def write_case(folder: Path, model, inputs, outputs) -> Path:
    """folder/model.onnx and folder/test_data_set_0/{input,output}_<i>.pb; returns the model's path."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    for kind, values, infos in (("input", inputs, model.graph.input), ("output", outputs, model.graph.output)):
        for i, value in enumerate(values):
            proto = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), infos[i].name)
            (data / f"{kind}_{i}.pb").write_bytes(proto.SerializeToString())
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def fix_inputs(model, values, is_fixed):
    """The inputs named by is_fixed become initializers; returns the model and the values of the others."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    del out.graph.input[:]
    left = []
    for info, value in zip(model.graph.input, values):
        if is_fixed(info.name):
            out.graph.initializer.append(numpy_helper.from_array(np.asarray(value), info.name))
        else:
            out.graph.input.append(info)
            left.append(value)
    return out, left


def check(trine: Path, paths, *options) -> dict:
    """{folder's name: None, or why it is wrong}"""
    command = [trine, "onnx", *paths, "--check", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert report["version"] == 1
    return {Path(row["file"]).parent.name: None if row["ok"] else row["why"] for row in report["models"]}
