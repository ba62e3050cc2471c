"""What a row calls: a built-in model or the user's, as its mode runs it."""

import importlib.util
import os
import sys

from trine.decide.baseline.models import CLASSES, fill, integers, nn, torch, uniform
from trine.decide.baseline.rows import config_of


class Work:
    """What a row calls: `call` in its mode, `plain` as PyTorch runs it by itself, and what one call does."""

    def __init__(self, call, plain, sync, items, unit, weight_bytes, framework="torch"):
        self.call, self.plain, self.sync, self.items, self.unit = call, plain, sync, items, unit
        self.weight_bytes, self.framework = weight_bytes, framework


def inputs_of(config, phase, batch, tokens, device, dtype):
    kind = config["kind"]
    if kind in ("gpt2", "llama"):
        position = torch.arange(tokens, device=device)
        if phase == "decode":
            return integers((batch, 1), 901, config["vocab"], device), position[-1:]
        return integers((batch, tokens), 901, config["vocab"], device), position
    if kind == "bert":
        return (integers((batch, tokens), 901, config["vocab"], device),)
    if kind == "unet":
        latent = uniform((batch, 4, config["image"], config["image"]), 902, 1.0, device).to(dtype)
        text = uniform((batch, config["text_tokens"], config["text"]), 903, 1.0, device).to(dtype)
        return latent, torch.full((batch,), 500, device=device), text
    return (uniform((batch, 3, config["image"], config["image"]), 902, 1.0, device).to(dtype),)


def build_model(config, device, dtype):
    """The model with its fixed weights, never held twice; built where it has no memory, then given it."""
    with torch.device("meta"):
        model = CLASSES[config["kind"]](**config).to(dtype)
    model = model.to_empty(device=device).eval()
    fill(model)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.reset_running_stats()
    return model.to(memory_format=torch.channels_last) if config["kind"] in ("resnet", "unet") else model


def sync_of(device):
    return torch.cuda.synchronize if device == "cuda" else (lambda: None)


def captured(call, sync):
    """The call as one CUDA graph of the kernels that eager PyTorch launches."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    sync()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()

    def replay():
        graph.replay()
        return out

    return replay


def in_mode(model, inputs, mode, sync):
    """(the call in this mode, the plain call) of a model, or any callable, without gradients."""

    def plain():
        with torch.no_grad():
            return model(*inputs)

    if mode == "eager":
        return plain, plain
    if mode == "cuda-graph":
        return captured(plain, sync), plain
    compiled = torch.compile(model, mode=mode, dynamic=False)

    def call():
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            return compiled(*inputs)

    return call, plain


def train_work(model, inputs, mode, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device == "cuda")
    model.train()

    def step_by(loss_of):
        def step():
            loss = loss_of(*inputs)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        return step

    if mode == "cuda-graph":
        raise ValueError("a training step is not captured as it is: use reduce-overhead")
    plain = step_by(model.loss)
    if mode == "eager":
        return plain, plain
    step = step_by(torch.compile(model.loss, mode=mode, dynamic=False))

    def call():
        torch.compiler.cudagraph_mark_step_begin()
        return step()

    return call, plain


def built_work(job):
    """The Work of a built-in row."""
    device, dtype = job["device"], torch.bfloat16 if job["dtype"] == "bf16" else torch.float32
    torch.set_float32_matmul_precision("high" if job["dtype"] == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = job["dtype"] == "tf32"
    torch.backends.cudnn.benchmark = True
    config = config_of(job["model"], job["small"])
    model = build_model(config, device, dtype)
    weight_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    inputs = inputs_of(config, job["phase"], job["batch"], job["tokens"], device, dtype)
    if config["kind"] in ("resnet", "unet"):
        inputs = tuple(t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in inputs)
    sync, items, unit = sync_of(device), job["batch"], "tokens" if job["tokens"] and config["kind"] != "bert" else "inferences"
    if unit == "tokens" and job["phase"] != "decode":
        items *= job["tokens"]
    if job["phase"] == "train":
        call, plain = train_work(model, inputs, job["mode"], device)
        return Work(call, plain, sync, items, unit, weight_bytes)
    if job["phase"] in ("prefill", "decode"):
        model.make_cache(job["batch"], job["tokens"], device, dtype)
    call, plain = in_mode(model, inputs, job["mode"], sync)
    return Work(call, plain, sync, items, unit, weight_bytes)


def own_work(job):
    """The Work of the user's model: FILE.py:factory, which returns a callable and the tuple of its inputs."""
    path, _, name = job["own"].rpartition(":")
    spec = importlib.util.spec_from_file_location("own_model", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    function, inputs = getattr(module, name)()
    if torch is None or not any(isinstance(x, torch.Tensor) for x in inputs):
        import jax

        compiled = jax.jit(function) if job["mode"] != "eager" else function
        last = []

        def call():
            last[:] = [compiled(*inputs)]
            return last[0]

        return Work(call, call, lambda: jax.block_until_ready(last), 1, "inferences", 0, "jax")
    sync = sync_of(job["device"])
    weights = function.parameters() if isinstance(function, nn.Module) else ()
    call, plain = in_mode(function, inputs, job["mode"], sync)
    return Work(call, plain, sync, 1, "inferences", sum(p.numel() * p.element_size() for p in weights))
