"""`trine compile` and `trine run` of what it wrote: models ahead of time, weights shared, refusals, codes, memory maps."""

import json
import os
import subprocess

import numpy as np
import pytest

TOY = """
import jax, jax.numpy as jnp, numpy as np

def layer(x, w):
    return jnp.tanh(x @ w)

def model():
    w = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    return layer, (jax.ShapeDtypeStruct((8, 64), "float32"), w)

def bad(x):
    y = x * 2
    return jnp.fft.fft(y).real + 1

def big(x):
    return (x @ x.T) @ x
"""


@pytest.fixture
def trine(tmp_path, request, monkeypatch):
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    monkeypatch.setenv("NEURON_CC_FLAGS", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TRINE_INSTANCE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "toy.py").write_text(TOY)

    def run(*words, code=0):
        env = {**os.environ, "VIRTUAL_ENV": os.path.dirname(os.path.dirname(os.sys.executable))}
        done = subprocess.run([request.config.trine, *map(str, words)], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    run.folder = tmp_path
    return run


def write_onnx(path, seed):
    onnx = pytest.importorskip("onnx")
    h, rng = onnx.helper, np.random.default_rng(seed)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in (("w", (64, 128)), ("b", (128,)), ("v", (128, 10)))]
    nodes = [h.make_node("MatMul", ["x", "w"], ["h"]), h.make_node("Add", ["h", "b"], ["i"]), h.make_node("Relu", ["i"], ["j"]), h.make_node("MatMul", ["j", "v"], ["y"])]
    value = lambda name, width: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", width])  # noqa: E731
    onnx.save(h.make_model(h.make_graph(nodes, "mlp", [value("x", 64)], [value("y", 10)], weights), opset_imports=[h.make_opsetid("", 17)]), path)
    return weights


def outputs(done):
    return json.loads(done.stdout)["values"]["outputs"]


def test_a_model_ahead_of_time(trine):
    weights = write_onnx(trine.folder / "mlp.onnx", 0)
    made = trine("compile", "mlp.onnx", "--shape", "batch=8", "-o", "mlp.trn")
    assert "cached as" in made.stderr and "schedule" in made.stderr and "instructions for trn1" in made.stdout
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    np.save(trine.folder / "x.npy", x)
    (y,) = outputs(trine("run", "mlp.trn", "--values", "--native", "--input", "x=x.npy", "--output", trine.folder, "--json"))
    assert y["name"] == "y" and y["from_native"] < 1e-5
    onnx = pytest.importorskip("onnx")
    w, b, v = (onnx.numpy_helper.to_array(t) for t in weights)
    assert np.allclose(np.load(trine.folder / "y.npy"), np.maximum(x @ w + b, 0) @ v, rtol=1e-4, atol=1e-3)
    assert json.loads(trine("run", "mlp.trn", "--json").stdout)["time"]["time_ns"] > 1000


def test_changed_weights_are_the_same_program(trine):
    for seed, cached in ((0, False), (1, True)):
        write_onnx(trine.folder / "mlp.onnx", seed)
        made = json.loads(trine("compile", "mlp.onnx", "--shape", "batch=8", "--json").stdout)
        assert made["cached"] is cached


def test_another_chip_is_refused_and_compiled_for(trine):
    write_onnx(trine.folder / "mlp.onnx", 0)
    trine("compile", "mlp.onnx", "--shape", "batch=8", "-o", "mlp.trn")
    refused = trine("run", "mlp.trn", "--instance", "inf2.xlarge", code=3)
    assert "was compiled for trn1; inf2.xlarge has inf2" in refused.stderr and "trine compile mlp.trn" in refused.stderr
    trine("compile", "mlp.trn", "--instance", "inf2.xlarge", "-o", "deploy.trn")
    (y,) = outputs(trine("run", "deploy.trn", "--values", "--native", "--json"))
    assert y["from_native"] < 1e-5
    assert (trine.folder / "deploy.trn").stat().st_size < (trine.folder / "mlp.trn").stat().st_size - 30000, "weights were copied"


def test_weights_in_a_file_of_their_own(trine):
    write_onnx(trine.folder / "mlp.onnx", 0)
    trine("compile", "mlp.onnx", "--shape", "batch=8", "--weights", "w.safetensors", "-o", "a.trn")
    again = trine("compile", "mlp.onnx", "--shape", "batch=8", "--weights", "w.safetensors", "-o", "b.trn", "--instance", "trn2.3xlarge")
    assert "shared with w.safetensors" in again.stderr
    a, b = (outputs(trine("run", name, "--native", "--json"))[0]["max"] for name in ("a.trn", "b.trn"))
    assert a == b
    write_onnx(trine.folder / "mlp.onnx", 1)
    assert "holds other weights" in trine("compile", "mlp.onnx", "--shape", "batch=8", "--weights", "w.safetensors", code=3).stderr


def test_weights_are_looked_for_beneath_the_program_alone(trine):
    write_onnx(trine.folder / "mlp.onnx", 0)
    (trine.folder / "other").mkdir()
    outside = trine("compile", "mlp.onnx", "--shape", "batch=8", "--weights", "w.safetensors", "-o", "other/a.trn", code=3)
    assert "not in the folder of other/a.trn or below it" in outside.stderr and not (trine.folder / "w.safetensors").exists()
    trine("compile", "mlp.onnx", "--shape", "batch=8", "--weights", "other/w.safetensors", "-o", "a.trn")
    trine("run", "a.trn", "--native", "--json")
    weights, secret = trine.folder / "other/w.safetensors", trine.folder.parent / "secret.safetensors"
    weights.rename(secret)
    weights.symlink_to(secret)
    assert "leads out of" in trine("run", "a.trn", "--native", code=3).stderr
    # compiled again elsewhere, a program takes its weights along
    weights.unlink()
    secret.rename(weights)
    trine("compile", "a.trn", "-o", "other/b.trn")
    weights.rename(secret)
    trine("run", "other/b.trn", "--native", "--json", code=2)
    (trine.folder / "far").mkdir()
    secret.rename(weights)
    trine("compile", "a.trn", "-o", "far/c.trn")
    weights.unlink()
    trine("run", "far/c.trn", "--native", "--json")


def test_a_function_of_a_module(trine):
    pytest.importorskip("jax")
    trine("compile", "toy:model")
    (y,) = outputs(trine("run", "model.trn", "--values", "--native", "--json"))
    assert y["shape"] == [8, 64] and y["from_native"] < 1e-5
    units = trine("compile", "toy.py:layer", "--shape", "x=8x64", "--shape", "w=64x64", "--print-after", "fuse", "--stop-after", "fuse")
    assert units.stdout.strip() == "f32[8,64] = dot_general tanh" and not (trine.folder / "layer.trn").exists()
    assert "no pass is named fusing; near: fuse" in trine("compile", "toy.py:layer", "--stop-after", "fusing", code=2).stderr


def test_what_the_device_does_not_compute_is_named_with_its_line(trine):
    pytest.importorskip("jax")
    line = TOY[: TOY.index("jnp.fft")].count("\n") + 1
    dry = trine("compile", "toy:bad", "--shape", "x=16", "--dry-run")
    assert f"toy.py:{line}" in dry.stdout and "fft c64[16] runs on the host" in dry.stdout
    ops = json.loads(trine("compile", "toy:bad", "--shape", "x=16", "--dry-run", "--json").stdout)
    assert {"op": "fft", "device": 0, "host": 1} in ops["ops"] and all(h["try"] for h in ops["host"])


def test_the_host_runs_what_the_device_does_not(trine):
    pytest.importorskip("jax")
    made = trine("compile", "toy:bad", "--shape", "x=16")
    assert "in 3 parts" in made.stderr and "1 fft: the chip has no c64" in made.stderr
    x = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    np.save(trine.folder / "x.npy", x)
    (y,) = outputs(trine("run", "bad.trn", "--values", "--native", "--input", "arg0=x.npy", "--output", trine.folder, "--json"))
    assert y["from_native"] < 1e-6 and np.allclose(np.load(trine.folder / "out0.npy"), np.fft.fft(x * 2).real + 1, atol=1e-4)
    parts = json.loads(trine("run", "bad.trn", "--json").stdout)["parts"]
    assert [p["on_host"] for p in parts] == [False, True, False] and parts[0]["time"]["time_ns"] > 1000
    trine("compile", "bad.trn", "--instance", "trn2.3xlarge", "-o", "other.trn")
    assert outputs(trine("run", "other.trn", "--values", "--native", "--json"))[0]["from_native"] < 1e-6


def test_out_of_memory_shows_the_map(trine):
    pytest.importorskip("jax")
    chip = {"name": "little", "title": "little HBM", "like": "trn1", "hbm": {"bytes": {"is": 4000000, "from": "test"}}}
    (trine.folder / "little.json").write_text(json.dumps(chip))
    error = trine("compile", "toy:big", "--shape", "x=1024x256", "--chip", "little.json", code=4).stderr
    assert "error NCC_EOOM001" in error and "in use at the peak" in error and "a core has 2.0 MB" in error
    picture = (trine.folder / "big.trn.memory.svg").read_text()
    assert picture.startswith("<svg") and "peak" in picture and "f32[1024,256]" in picture
