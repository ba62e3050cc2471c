"""BERT compiled by one changed line, checked and timed against torch's CPU."""

import argparse
import time

import torch
from transformers import BertConfig, BertModel


def best(run, count):
    """Seconds of the quickest of a few runs."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        run()
        took.append(time.perf_counter() - began)
    return min(took)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=args.layers)).eval()
    compiled = torch.compile(model, backend="neuron")
    ids = torch.randint(0, 30000, (8, 128))
    with torch.no_grad():
        began = time.perf_counter()
        out = compiled(ids).last_hidden_state
        first = time.perf_counter() - began
        worst = (out - model(ids).last_hidden_state).abs().max().item()
        ours, eager = best(lambda: compiled(ids), args.runs), best(lambda: model(ids), args.runs)
    print(f"BERT, {args.layers} layers, batch 8, 128 tokens, f32")
    print(f"  first call {first:6.2f} s, compiling included")
    print(f"  compiled   {1e3 * ours:6.0f} ms   by Trine, on this machine's CPU")
    print(f"  eager      {1e3 * eager:6.0f} ms   torch's own, on the same CPU: {eager / ours:.2f} times the compiled one's time")
    print(f"  max error  {worst:.1e}      between the two")
    assert worst < 1e-4


if __name__ == "__main__":
    main()
