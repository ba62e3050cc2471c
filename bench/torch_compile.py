"""Compiled BERT-base and GPT-2 against torch's CPU, eager and (with --inductor) inductor, interleaved in one process.

Rows: seconds of the quickest of a few runs and the ratio, in wall time and in processor time of all threads (which a
machine shared with others disturbs less); the first call, compiling included; microseconds of small eager ops on
`neuron` against the CPU's.
"""

import argparse
import time

import torch


def timed(run):
    """Seconds of wall time and of processor time."""
    began, used = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - began, time.process_time() - used


def interleaved(runs, count):
    """The least of `count` rounds, each run once per round, of either time."""
    best = dict.fromkeys(runs, (1e9, 1e9))
    for _ in range(count):
        for name, run in runs.items():
            best[name] = tuple(map(min, best[name], timed(run)))
    return best


def bert(layers):
    from transformers import BertConfig, BertModel

    model, ids = BertModel(BertConfig(num_hidden_layers=layers)).eval(), torch.randint(0, 30000, (8, 128))
    return model, lambda f: f(ids), True


def gpt2(layers):
    from transformers import GPT2Config, GPT2LMHeadModel

    model, ids = GPT2LMHeadModel(GPT2Config(n_layer=layers)).eval(), torch.randint(0, 50000, (4, 128))
    return model, lambda f: f(ids, use_cache=False), True


def gpt2_training(layers):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model, ids = GPT2LMHeadModel(config).train(), torch.randint(0, 50000, (4, 128))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step(f):
        logits = f(ids, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step, False


ROWS = {"bert": bert, "gpt2": gpt2, "gpt2_training": gpt2_training}


def measure(name, make, options):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, call, inference = make(options.layers)
    compiled = {"neuron": torch.compile(model, backend="neuron", dynamic=False)}
    if options.inductor:
        compiled["inductor"] = torch.compile(model, dynamic=False)
    with torch.no_grad() if inference else torch.enable_grad():
        first = {}
        for backend, f in compiled.items():
            first[backend] = timed(lambda f=f: call(f))
        runs = {b: lambda f=f: call(f) for b, f in compiled.items()} | {"eager": lambda: call(model)}
        best = interleaved(runs, options.rounds)
    wall, used = (min(v[i] for k, v in best.items() if k != "neuron") / best["neuron"][i] for i in (0, 1))
    times = "  ".join(f"{k} {v[0]:.3f} ({v[1]:.3f}) s" for k, v in best.items())
    firsts = "  ".join(f"{k} {v[0]:.1f} ({v[1]:.1f}) s" for k, v in first.items())
    print(f"{name:15} {times}  ratio {wall:.2f} ({used:.2f})  first call {firsts}", flush=True)


OPS = {
    "add": lambda x: x + x,
    "mul by 2": lambda x: x * 2,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "sum": lambda x: x.sum(),
    "mm": lambda x: x @ x,
    "linear": lambda x: torch.nn.functional.linear(x, x, x[0]),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (4,)),
    "add in place": lambda x: x.add_(0.5),
    "cat": lambda x: torch.cat((x, x)),
}


def small_ops(count=2000):
    for name, f in OPS.items():
        x = torch.ones(4, 4)
        y = x.to("neuron")
        for _ in range(100):
            f(x), f(y)
        runs = {"cpu": lambda: [f(x) for _ in range(count)], "neuron": lambda: [f(y) for _ in range(count)]}
        cpu, neuron = ([t / count * 1e6 for t in v] for v in interleaved(runs, 15).values())
        print(f"eager {name:12} cpu {cpu[0]:6.2f} ({cpu[1]:.2f}) us  neuron {neuron[0]:6.2f} ({neuron[1]:.2f}) us  "
              f"{neuron[0] / cpu[0]:.2f} ({neuron[1] / cpu[1]:.2f}) x", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}, ops; all where none is named")
    options = parser.parse_args()
    if unknown := set(options.rows) - {*ROWS, "ops"}:
        raise SystemExit(f"no row is named {', '.join(unknown)}; there are {', '.join(ROWS)}, ops")
    for name in options.rows or [*ROWS, "ops"]:
        small_ops() if name == "ops" else measure(name, ROWS[name], options)


if __name__ == "__main__":
    main()
