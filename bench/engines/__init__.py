"""Other engines on the models of bench/jax_peers.py: the same weights, two threads, as each of them is used best."""

import os
import tempfile
from pathlib import Path

NAMES = ("eager", "inductor", "onnxruntime", "openvino")
THREADS = min(2, len(os.sched_getaffinity(0)))  # `taskset -c 0` makes it one


def engine(name, model, args):
    """A function without arguments that runs `model(*args)`, a torch module, once."""
    import torch

    torch.set_num_threads(THREADS)
    model = model.eval()
    with torch.no_grad():
        return {"eager": _eager, "inductor": _inductor, "onnxruntime": _onnxruntime, "openvino": _openvino}[name](
            model, args
        )


def _eager(model, args):
    import torch

    def run():
        with torch.no_grad():
            return [model(*args).numpy()]

    return run


def _inductor(model, args):
    import torch
    import torch._inductor.config as config

    config.freezing = True
    return _eager(torch.compile(model), args)


def _onnx(model, args, folder):
    import torch

    path = Path(folder) / "model.onnx"
    torch.onnx.export(model, args, path, dynamo=False, opset_version=17)
    return path


def _onnxruntime(model, args):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    with tempfile.TemporaryDirectory() as folder:
        path = _onnx(model, args, folder)
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {i.name: a.numpy() for i, a in zip(session.get_inputs(), args)}
    return lambda: session.run(None, feed)


def _openvino(model, args):
    import openvino

    core = openvino.Core()
    exact = {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32"}
    with tempfile.TemporaryDirectory() as folder:
        compiled = core.compile_model(core.read_model(_onnx(model, args, folder)), "CPU", exact)
        request = compiled.create_infer_request()
    feed = [a.numpy() for a in args]
    return lambda: [request.infer(feed)[0]]
