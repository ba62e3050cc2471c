"""Compiled BERT-base and GPT-2 against torch's CPU, eager and (with --inductor) inductor, interleaved in one process.

Rows: seconds of the quickest of a few runs and the ratio; the first call, compiling included; microseconds of small
eager ops on `neuron` against the CPU's.
"""

import argparse
import time

import torch


def interleaved(runs, count):
    """The quickest of `count` rounds, each run once per round."""
    best = {}
    for _ in range(count):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            best[name] = min(best.get(name, 1e9), time.perf_counter() - began)
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
            began = time.perf_counter()
            call(f)
            first[backend] = time.perf_counter() - began
        runs = {b: lambda f=f: call(f) for b, f in compiled.items()} | {"eager": lambda: call(model)}
        best = interleaved(runs, options.rounds)
    peers = min(v for k, v in best.items() if k != "neuron")
    times = "  ".join(f"{k} {v:.3f} s" for k, v in best.items())
    print(f"{name:15} {times}  ratio {peers / best['neuron']:.2f}  first call {first}".replace("{", "").replace("}", ""), flush=True)


def small_ops():
    for name, f in {"add": lambda x: x + x, "mm": lambda x: x @ x, "softmax": lambda x: torch.softmax(x, -1)}.items():
        x = torch.ones(4, 4)
        y = x.to("neuron")
        for _ in range(100):
            f(x), f(y)
        runs = {"cpu": lambda: [f(x) for _ in range(2000)], "neuron": lambda: [f(y) for _ in range(2000)]}
        best = {k: v / 2000 * 1e6 for k, v in interleaved(runs, 5).items()}
        print(f"eager {name:9} cpu {best['cpu']:.2f} us  neuron {best['neuron']:.2f} us  {best['neuron'] / best['cpu']:.2f} x")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inductor", action="store_true")
    options = parser.parse_args()
    for name, make in {"bert forward": bert, "gpt2 forward": gpt2, "gpt2 training": gpt2_training}.items():
        measure(name, make, options)
    small_ops()


if __name__ == "__main__":
    main()
