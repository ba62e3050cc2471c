"""Kernels inside programs of PyTorch and JAX: values, gradients that the user gives, and the kernel's time in the whole."""

import base64
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/nki"))
from norms import rmsnorm  # noqa: E402

import trine  # noqa: E402
import trine.nki as nki  # noqa: E402
import trine.nki.language as nl  # noqa: E402
from trine import _core  # noqa: E402


@nki.jit
def double_in_place(a):
    nl.store(a, nl.multiply(nl.load(a), 2))
    return a


def has_kernel(program, name):
    return any(t["name"].startswith(name + ".") for t in program.tensors)


# --- PyTorch ---


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("trine._torch")
    return torch


@pytest.fixture(scope="module")
def layer(torch):
    """A small model with the norm as an operator, or as plain torch."""
    from trine.torch.kernels import nki_op

    @nki_op("trine_test::rmsnorm", mutates_args={})
    def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return rmsnorm(x, w)

    def backward(ctx, g):
        x, w = ctx.saved_tensors
        r = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
        scaled = g * w
        return r * scaled - x * r**3 * (scaled * x).mean(-1, keepdim=True), (g * x * r).sum(0)

    norm.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))

    def plain(x, w):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w

    class Layer(torch.nn.Module):
        def __init__(self, which):
            super().__init__()
            torch.manual_seed(0)
            self.linear, self.weight = torch.nn.Linear(128, 128), torch.nn.Parameter(torch.full((128,), 1.5))
            self.norm = {"op": norm, "kernel": rmsnorm, "plain": plain}[which]

        def forward(self, x):
            return torch.tanh(self.norm(self.linear(x), self.weight))

    return Layer


@pytest.mark.parametrize("device", ["cpu", "neuron"])
@pytest.mark.parametrize("compiled", [False, True])
def test_torch_values_and_gradients(torch, layer, device, compiled):
    from trine.torch import pieces

    def step(model, x, how):
        out = how(model)(x)
        out.sum().backward()
        return [out.detach().cpu()] + [p.grad.cpu() for p in model.parameters()]

    x = torch.randn(64, 128)
    torch._dynamo.reset()
    pieces.FALLBACKS.clear()
    wanted = step(layer("plain"), x, lambda m: m)
    found = step(layer("op").to(device), x.to(device), lambda m: torch.compile(m, backend="neuron", fullgraph=True) if compiled else m)
    for a, b in zip(found, wanted):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
    assert not pieces.FALLBACKS


def test_torch_time(torch, layer):
    x = torch.zeros(64, 128)
    for train in (False, True):
        with_kernel, plain = (trine.report(layer(w), x, instance="trn2.3xlarge", train=train) for w in ("op", "plain"))
        assert has_kernel(with_kernel.program, "rmsnorm") and not has_kernel(plain.program, "rmsnorm")
        assert with_kernel.time_ns > 0 and with_kernel.time_ns != plain.time_ns
    alone = trine.report(rmsnorm, x, torch.zeros(128), instance="trn2.3xlarge")
    launch = alone._numbers["launch_ns"]
    forward = trine.report(layer("op"), x, instance="trn2.3xlarge")
    assert forward.time_ns - launch > 0.5 * (alone.time_ns - launch)


def test_torch_a_kernel_called_as_it_is(torch, layer):
    torch._dynamo.reset()
    x = torch.randn(64, 128)
    with torch.no_grad(), trine.timed() as t:
        found = torch.compile(layer("kernel"), backend="neuron", fullgraph=True)(x)
    with torch.no_grad():
        assert torch.allclose(found, layer("plain")(x), atol=1e-5)
    assert len(t.programs) == 1 and t.time_ns > 0
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="nki_op"):
        torch.compile(layer("kernel"), backend="neuron")(x).sum().backward()


def test_a_kernel_that_runs_by_itself_is_timed_too(torch, layer):
    x = torch.randn(64, 128).to("neuron")
    with torch.no_grad(), trine.timed("trn1.2xlarge") as t:
        for _ in range(2):
            out = layer("kernel").to("neuron")(x)
    found = {r.name: r for r in t.programs}["rmsnorm"]
    assert out.device.type == "neuron" and found.runs == 2 and found.device_ns > 0
    assert found.each_ns == pytest.approx(trine.report(rmsnorm, x, torch.zeros(128), instance="trn1.2xlarge").time_ns)


def test_torch_a_kernel_that_writes_its_argument(torch):
    torch._dynamo.reset()
    x = torch.ones(32, 8)

    @torch.compile(backend="neuron", fullgraph=True)
    def f(x):
        y = x + 1
        double_in_place(y)
        return y * 3

    assert (f(x) == 12).all() and (x == 1).all()


# --- JAX ---


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.fixture(scope="module")
def norms(jax):
    import jax.numpy as jnp

    def plain(x, w):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w

    @jax.custom_vjp
    def norm(x, w):
        return rmsnorm(x, w)

    norm.defvjp(lambda x, w: (rmsnorm(x, w), (x, w)), lambda saved, g: jax.vjp(plain, *saved)[1](g))
    return norm, plain


def arguments():
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32) for s in ((64, 128), (128,), (128, 128))]


def test_jax_values_gradients_and_time(jax, norms):
    import jax.numpy as jnp

    def loss(norm):
        return lambda x, w, m: jnp.tanh(norm(x @ m, w)).sum()

    args = arguments()
    ours, theirs = (jax.jit(jax.value_and_grad(loss(n), (0, 1, 2))) for n in norms)
    for a, b in zip(jax.tree.leaves(ours(*args)), jax.tree.leaves(theirs(*args))):
        assert np.allclose(a, b, rtol=1e-3, atol=1e-3)
    for instance in ("trn1.2xlarge", "trn2.3xlarge"):
        r = trine.report(ours, *args, instance=instance)
        assert has_kernel(r.program, "rmsnorm") and r.program.chip == instance[:4]
        assert 0 < r.time_ns != trine.report(theirs, *args, instance=instance).time_ns
    # the program's instructions, the kernel's among them, one by one
    exact = trine.Exact(loss(norms[0]), *args, chip="trn2")
    assert np.allclose(exact(*args), loss(norms[1])(*args), rtol=1e-4) and not exact.findings


def test_jax_a_kernel_in_a_loop_and_over_a_batch(jax, norms):
    x, w, _ = arguments()

    def f(norm):
        return lambda x, w: jax.lax.fori_loop(0, 3, lambda i, v: norm(v + i, w), x)

    assert np.allclose(jax.jit(f(rmsnorm))(x, w), f(norms[1])(x, w), rtol=1e-4, atol=1e-5)
    exact = trine.Exact(f(rmsnorm), x, w, chip="trn2")
    assert np.allclose(exact(x, w), f(norms[1])(x, w), rtol=1e-4, atol=1e-4)
    batch = x.reshape(2, 32, 128)
    assert np.allclose(jax.vmap(lambda v: rmsnorm(v, w))(batch), norms[1](batch, w), rtol=1e-4, atol=1e-5)


def test_jax_without_a_gradient_says_so(jax):
    x, w, _ = arguments()
    with pytest.raises(NotImplementedError, match="nki_kernel"):
        jax.grad(lambda x: rmsnorm(x, w).sum())(x)


# --- payloads ---


def program_with(payload):
    kind = "tensor<32x8xf32>"
    return (f'func.func public @main(%a: {kind}) -> {kind} {{ %0 = "stablehlo.custom_call"(%a) <{{backend_config = "{payload}", '
            f'call_target_name = "AwsNeuronCustomNativeKernel"}}> : ({kind}) -> {kind}\n "func.return"(%0) : ({kind}) -> () }}').encode()  # fmt: skip


def test_a_payload_is_not_trusted():
    compiled, _ = double_in_place.compiled("trn2", [np.zeros((32, 8), np.float32)], {}, recorded=True)
    good = compiled.recording
    assert _core.compile_device(program_with(good), "trn2").program.chip == "trn2"
    raw = bytearray(base64.b64decode(good))
    raw[len(raw) // 2] ^= 0xFF
    for bad in ("", "%%%", good[:-8], base64.b64encode(bytes(raw)).decode()):
        for make in (_core.Executable.compile, lambda text: _core.compile_device(text, "trn2")):
            with pytest.raises(Exception, match="kernel|program file|base64|payload"):
                make(program_with(bad))


def test_the_example_of_an_operator(torch):
    import importlib.util

    torch._dynamo.reset()
    path = Path(__file__).resolve().parents[2] / "examples/torch/nki_norm.py"
    spec = importlib.util.spec_from_file_location("nki_norm", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main()
