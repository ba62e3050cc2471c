"""Models and kernels through JAX: on virtual NeuronCores and on XLA's CPU backend, in one process, turn by turn.

Prints the fastest of each and the ratio (above 1: ours is faster). Rows by name: `jax_peers.py bert_b1 sort`.
"""

import argparse
import json
import time

import jax
import jax.numpy as jnp

from trine import models

KEY = jax.random.key(0)


def _model(name):
    model = models.build(name)
    return model, model.init(KEY)


def _bert(batch):
    model, params = _model("bert-base")
    return model.forward, (params, {"tokens": jnp.ones((batch, 128), jnp.int32)})


def _prefill():
    model, params = _model("gpt2")
    return model.prefill, (params, {"tokens": jnp.ones((1, 512), jnp.int32)}, model.empty_cache(1, 512))


def _decode(batch):
    model, params = _model("gpt2")
    inputs = {"tokens": jnp.ones((batch, 1), jnp.int32), "at": jnp.int32(512)}
    return lambda p, i, c: model.decode(p, i, c)[0], (params, inputs, model.empty_cache(batch, 513))


def _train():
    model, params = _model("gpt2")
    tokens = jnp.ones((4, 128), jnp.int32)

    def step(p, inputs):
        loss, grads = jax.value_and_grad(model.loss)(p, inputs)
        return loss, jax.tree.map(lambda p, g: p - 0.01 * g, p, grads)

    return step, (params, {"tokens": tokens, "labels": tokens})


def _resnet(batch):
    model, params = _model("resnet-50")
    return model.forward, (params, {"images": jnp.ones((batch, 224, 224, 3))})


def _norm_gelu():
    def f(x, w, b):
        y = jax.nn.gelu(x * w + b)
        y = y - y.mean(-1, keepdims=True)
        return y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)

    return f, (jax.random.normal(KEY, (1024, 768)), jnp.ones((768,)), jnp.ones((768,)))


def _scan():
    def f(x):
        return jax.lax.scan(lambda c, i: (jnp.tanh(c * 0.9 + i), c.sum()), x, jnp.arange(10000.0))

    return f, (jnp.ones((8,)),)


def _rows():
    x = jax.random.normal(KEY, (1024, 1024))
    index = jax.random.randint(KEY, (4096,), 0, 1024)
    return {
        "bert_b1": lambda: _bert(1),
        "bert_b8": lambda: _bert(8),
        "gpt2_prefill_512": _prefill,
        "gpt2_decode_b1": lambda: _decode(1),
        "gpt2_decode_b8": lambda: _decode(8),
        "gpt2_train_4x128": _train,
        "resnet50_b1": lambda: _resnet(1),
        "resnet50_b8": lambda: _resnet(8),
        "norm_gelu": _norm_gelu,
        "softmax": lambda: (lambda x: jax.nn.softmax(x, -1), (x,)),
        "reduce_rows": lambda: (lambda x: x.sum(1), (x,)),
        "reduce_columns": lambda: (lambda x: x.sum(0), (x,)),
        "sort": lambda: (lambda x: jnp.sort(x.ravel()[:100000]), (x,)),
        "gather": lambda: (lambda x, i: x[i], (x, index)),
        "scatter_add": lambda: (lambda x, i: jnp.zeros_like(x).at[i].add(x[i]), (x, index)),
        "scan_10000": _scan,
        "tiny_jit": lambda: (lambda x: x + 1, (jnp.ones((4,)),)),
    }


def _compiled(function, args, device):
    args = jax.device_put(args, device)
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*args).compile()
    return compiled, args, time.perf_counter() - start


def _once(compiled, args, many):
    start = time.perf_counter()
    for _ in range(many):
        out = compiled(*args)
    jax.block_until_ready(out)
    return (time.perf_counter() - start) / many


def measure(name, make, seconds):
    with jax.default_device(jax.devices("cpu")[0]):
        function, args = make()
    sides = [_compiled(function, args, d) for d in (jax.devices()[0], jax.devices("cpu")[0])]
    best = [float("inf")] * 2
    for compiled, given, _ in sides:
        _once(compiled, given, 2)
    many = max(1, min(1000, int(0.05 / max(1e-6, _once(*sides[0][:2], 1)))))
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for i, (compiled, given, _) in enumerate(sides):
            best[i] = min(best[i], _once(compiled, given, many))
    return {"row": name, "ours_ms": best[0] * 1e3, "xla_ms": best[1] * 1e3, "ratio": best[1] / best[0],
            "compile_s": sides[0][2], "xla_compile_s": sides[1][2]}  # fmt: skip


def main():
    rows = _rows()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", nargs="*", help=f"of {', '.join(rows)}")
    options.add_argument("--seconds", type=float, default=6, help="per row")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    if unknown := set(given.rows) - set(rows):
        raise SystemExit(f"no row is named {', '.join(unknown)}; there are {', '.join(rows)}")
    results = []
    if not given.json:
        print(f"{'row':20} {'ours ms':>10} {'XLA ms':>10} {'ratio':>7} {'compile s':>10} {'XLA s':>7}", flush=True)
    for name in given.rows or rows:
        r = measure(name, rows[name], given.seconds)
        results.append(r)
        if not given.json:
            print(f"{name:20} {r['ours_ms']:10.3f} {r['xla_ms']:10.3f} {r['ratio']:7.2f} {r['compile_s']:10.2f} "
                  f"{r['xla_compile_s']:7.2f}", flush=True)  # fmt: skip
    if given.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
