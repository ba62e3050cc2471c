"""Models and kernels through JAX: on virtual NeuronCores and on XLA's CPU backend, in one process, turn by turn.

Prints the fastest of each and the ratio (above 1: ours is faster). Rows by name: `jax_peers.py bert_b1 sort`. With
`--engines`, transformer rows are run by other engines too (bench/requirements.txt), with `--bf16` by ours in bf16.
"""

import argparse
import json
import time

import engines
import jax
import jax.numpy as jnp
import numpy as np

from trine import models

KEY = jax.random.key(0)
SETTLE_S = 0.05  # before each round: threads of onnxruntime look for work that long, on the core of whoever comes next
TRANSFORMERS = ("bert", "gpt2_prefill", "gpt2_decode")


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
        return jax.lax.scan(lambda c, i: (jnp.tanh(c * 0.9 + i), c.sum()), x, jnp.arange(10000.0, dtype=x.dtype))

    return f, (jnp.ones((8,)),)


def rows():
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


def _twin(name, args):
    """The row's model and arguments for torch."""
    import torch
    from engines import models as twins

    tokens = torch.from_numpy(np.array(args[1]["tokens"])).long()
    if name.startswith("bert"):
        return twins.Bert(args[0]), (tokens,)
    past = [torch.zeros(len(tokens), twins.HEADS, 512, twins.WIDTH // twins.HEADS) for _ in range(2 * twins.LAYERS)]
    return twins.Gpt2(args[0]), (tokens, *past) if "decode" in name else (tokens,)


def _compiled(function, args, device):
    args = jax.device_put(args, device)
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*args).compile()
    return lambda: jax.block_until_ready(compiled(*args)), time.perf_counter() - start


def _many(run, many):
    """Seconds of one run, and of all threads' processor time: what a machine shared with others disturbs less."""
    start, used = time.perf_counter(), time.process_time()
    for _ in range(many):
        run()
    return (time.perf_counter() - start) / many, (time.process_time() - used) / many


def _narrow(args):
    return jax.tree.map(lambda x: x.astype(jnp.bfloat16) if x.dtype == jnp.float32 else x, args)


def _sides(name, make, given):
    """What is run in turns, by name, and seconds to compile."""
    with jax.default_device(jax.devices("cpu")[0]):
        function, args = make()
        narrow = _narrow(args)
    sides, compile_s = {}, {}
    for side, device in (("ours", jax.devices()[0]), ("XLA", jax.devices("cpu")[0])):
        sides[side], compile_s[side] = _compiled(function, args, device)
    if given.bf16:
        sides["ours bf16"], _ = _compiled(function, narrow, jax.devices()[0])
    if given.engines and name.startswith(TRANSFORMERS):
        model, torch_args = _twin(name, args)
        want = np.asarray(jax.tree.leaves(sides["ours"]())[0]).ravel()
        for engine in given.engines:
            sides[engine] = engines.engine(engine, model, torch_args)
            np.testing.assert_allclose(np.asarray(sides[engine]()[0]).ravel(), want, rtol=1e-2, atol=1e-3)
    return sides, compile_s


def measure(name, make, given):
    sides, compile_s = _sides(name, make, given)
    best, cpu = dict.fromkeys(sides, float("inf")), dict.fromkeys(sides, float("inf"))
    for run in sides.values():
        _many(run, 2)
    many = max(1, min(1000, int(0.05 / max(1e-6, _many(sides["ours"], 1)[0]))))
    start = time.perf_counter()
    while time.perf_counter() - start < given.seconds or best["ours"] == float("inf"):
        for side, run in sides.items():
            time.sleep(SETTLE_S)
            run()  # wakes this side's threads
            wall, used = _many(run, many)
            best[side], cpu[side] = min(best[side], wall), min(cpu[side], used)
    return {"row": name, "ms": {k: v * 1e3 for k, v in best.items()}, "cpu_ms": {k: v * 1e3 for k, v in cpu.items()},
            "ratio": best["XLA"] / best["ours"],
            "compile_s": compile_s["ours"], "xla_compile_s": compile_s["XLA"]}  # fmt: skip


def print_head():
    print(f"{'row':24} {'ours ms':>10} {'XLA ms':>10} {'ratio':>7} {'compile s':>10} {'XLA s':>7}", flush=True)


def print_row(r):
    ms = r["ms"]
    others = "".join(f"  {k} {v:.2f} ({v / ms['ours']:.2f})" for k, v in ms.items() if k not in ("ours", "XLA"))
    others += "  cpu " + " ".join(f"{v:.3f}" for v in r["cpu_ms"].values())
    print(f"{r['row']:24} {ms['ours']:10.3f} {ms['XLA']:10.3f} {r['ratio']:7.2f} {r['compile_s']:10.2f} "
          f"{r['xla_compile_s']:7.2f}{others}", flush=True)  # fmt: skip


def main():
    makers = rows()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", nargs="*", help=f"of {', '.join(makers)}")
    options.add_argument("--seconds", type=float, default=6, help="per row")
    options.add_argument("--engines", nargs="*", default=(), choices=engines.NAMES, metavar="NAME",
                         help=f"of {', '.join(engines.NAMES)}")  # fmt: skip
    options.add_argument("--bf16", action="store_true", help="ours with weights and inputs in bf16, besides")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    if unknown := set(given.rows) - set(makers):
        raise SystemExit(f"no row is named {', '.join(unknown)}; there are {', '.join(makers)}")
    results = []
    if not given.json:
        print_head()
    for name in given.rows or makers:
        results.append(measure(name, makers[name], given))
        if not given.json:
            print_row(results[-1])
    if given.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
