"""The main job, start to end: a matrix multiply as a NeuronCore program on three generations of virtual chips, then an
NKI kernel, then a small LLaMA trained for a minute through plain JAX on a virtual NeuronCore, then BERT through PyTorch.

Values are computed instruction by instruction and checked against NumPy; time, energy and dollars come from timing
the same programs; pictures of where the time goes are written to out/. `demo.py kernels` and `demo.py models` are its
two halves; `make demo` shows the first while it builds what only the second needs.
"""

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import matmul
import trine
from trine import _core

sys.path.insert(0, str(Path(__file__).resolve().parent / "nki"))
from attention import flash_attention  # noqa: E402

M, N, K = 1024, 2048, 2048
INSTANCES = ["trn1.2xlarge", "trn2.3xlarge", "trn3-gen1-ultraserver"]
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
MODELS = {"bert-base": ["--batch", "8", "--auto-cast", "matmult"], "llama-3.2-1b": ["--phase", "prefill", "--seq", "512"]}
OUT = Path(__file__).resolve().parent.parent / "out"
TRINE = Path(__file__).resolve().parent.parent / "build" / "trine"


def check_values(program, chip, lhsT, rhs, expected):
    """Runs every instruction on the chip; returns the largest error against NumPy, or stops."""
    result = program.run({"lhsT": lhsT, "rhs": rhs}, chip=chip)
    for finding in result.findings:
        print(finding, file=sys.stderr)
    error = float(np.abs(result.outputs["out"] - expected).max())
    if result.findings or error > 1e-3:
        sys.exit(f"demo: values on {chip} are off by {error:.1e}")
    return error


def duration(ns):
    for unit, scale in (("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns:.3g} ns"


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))


def why_f32_is_slower(old, new):
    """What the two chip files say about a multiply in f32."""
    chips = {name: _core.chip(name) for name in (old, new)}
    rates = []
    for name, c in chips.items():
        tflops = 2 * c["tensor.rows"] * c["tensor.columns"] * c["tensor.clock_ghz"] / c["tensor.fp32_passes"] / 1e3
        rates.append(f"{tflops:.1f} TFLOP/s a core on {name}, at {c['tensor.clock_ghz']} GHz and {c['cores']} cores a chip")
    passes, lines = f"{c['tensor.fp32_passes']:.0f}", ";\n  ".join(rates)
    return (f"why {new} takes longer in f32: the tensor engine bounds it, an f32 product takes {passes} passes on both, and so its clock\n"
            f"decides:\n  {lines}.\nbf16 takes one pass and half the bytes: there memory counts, and {new} has more of its rate")  # fmt: skip


def show_kernel(rng, length=2048, d=128):
    """Flash attention from examples/nki: its values, its report, its picture."""
    q, k, v = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((d, length), (d, length), (length, d)))
    wide_q, wide_k, wide_v = (x.astype(np.float64) for x in (q, k, v))
    weights = np.exp(wide_q.T @ wide_k / np.sqrt(d))
    expected = weights / weights.sum(1, keepdims=True) @ wide_v
    out, _ = flash_attention(q, k, v)
    error = float(np.abs(out.astype(np.float64) - expected).max())
    if error > 0.01:
        sys.exit(f"demo: the kernel's values are off by {error:.1e}")
    print(f"\nan NKI kernel: flash attention over {length} tokens in bf16, values within {error:.1e} of NumPy's\n")
    report = trine.report(flash_attention, q, k, v, instance="trn2.3xlarge")
    report.picture(OUT / "kernel.svg")
    print(report)
    print("picture → out/kernel.svg")


def show_torch():
    """A PyTorch model as instructions, from shapes alone: time, what bounds it, dollars; then a training loop, timed."""
    import torch
    from transformers import BertConfig, BertModel

    with torch.device("meta"):
        model, ids = BertModel(BertConfig(num_hidden_layers=4)).eval(), torch.empty((8, 128), dtype=torch.int64)
    print("\nthe same model on a chip: trine.report(model, ids, auto_cast=\"matmult\")\n", flush=True)
    report = trine.report(model, ids, instance="trn2.3xlarge", auto_cast="matmult")
    report.picture(OUT / "bert.svg")
    print(f"{report}\npicture → out/bert.svg")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(128, 256, device="neuron"), torch.randn(128, 256, device="neuron")
    with trine.timed("trn2.3xlarge") as t:
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    print(f"\nfive steps of training on the device, op by op: with trine.timed() as t (loss {loss.item():.3f})\n\n{t}", flush=True)


def show_estimates():
    """Whole models from their configurations alone, on four generations: time with band, bound, dollars, energy."""
    print("\nwhole models as instructions, from their configurations alone\n", flush=True)
    where = "inf2.xlarge,trn1.2xlarge,trn2.3xlarge,trn3-gen1-ultraserver"
    for name, options in MODELS.items():
        subprocess.run([TRINE, "estimate", "--config", name, *options, "--compare", where, "--picture",
                        OUT / f"{name}.svg"], check=True)
        print(f"picture → out/{name}.svg\n", flush=True)


def show_kernels():
    """A multiply written in assembly on three generations of chips, and an NKI kernel."""
    rng = np.random.default_rng(0)
    whole = [rng.standard_normal((K, n)) for n in (M, N)]
    print(f"matmul {M}×{N}×{K} on one core: one program per dtype, the same on each chip\n")
    rows = [("instance", "dtype", "bound by", "time", "90 % band", "MFU", "energy", "cost", "max error")]
    for dtype, kind in DTYPES.items():
        lhsT, rhs = (a.astype(kind) for a in whole)
        expected = lhsT.astype(np.float64).T @ rhs.astype(np.float64)
        text = matmul.blocked_k(M, N, K, dtype=dtype)
        (OUT / f"matmul_{dtype}.tasm").write_text(text)
        program = _core.assemble(text)
        for instance in INSTANCES:
            timed = _core.time(program, instance).report()
            error = check_values(program, timed["chip"], lhsT, rhs, expected)
            low, high = timed["band_ns"]
            cost = "no price yet" if timed["cost_usd"] is None else f"${timed['cost_usd'] * 1e6:.3f} a million"
            rows.append((instance, dtype, timed["bound"]["by"], duration(timed["time_ns"]),
                         f"{duration(low)} – {duration(high)}", f"{timed['mfu_pct']:.1f} %",
                         f"{timed['energy_j'] * 1e3:.1f} mJ", cost, f"{error:.1e}"))
    table(rows)
    print(f"\n{why_f32_is_slower('trn1', 'trn2')}")
    print("\nvalues: every instruction executed, results agree with NumPy on every chip")
    _core.save_picture(program, "trn2.3xlarge", str(OUT / "demo.svg"))
    _core.save_trace(program, "trn2.3xlarge", str(OUT / "demo.json.gz"))
    print("timeline of the bf16 program on trn2 → out/demo.svg; in full → out/demo.json.gz (open in Perfetto)")
    show_kernel(rng)


def show_models():
    """Training through JAX, BERT through PyTorch, and whole models from their configurations."""
    print("\na small LLaMA learns this repository's documentation, through plain JAX\n", flush=True)
    subprocess.run([sys.executable, Path(__file__).parent / "jax/train_llama.py", "--seconds", "60", "--picture",
                    OUT / "loss.svg"], check=True)
    print("\nPyTorch, one line changed: torch.compile(model, backend=\"neuron\")\n", flush=True)
    subprocess.run([sys.executable, Path(__file__).parent / "torch/compile_bert.py", "--layers", "4"], check=True)
    show_torch()
    show_estimates()
    print("a model served: real weights answer here, and the same steps are timed on three instances\n", flush=True)
    subprocess.run([sys.executable, Path(__file__).parent / "served.py"], check=True)
    print("\nnext: trine explain out/matmul_bf16.tasm --instance trn2.3xlarge")
    print("      trine serve smollm2")
    print("      trine nki examples/nki/matmul.py::blocked --shapes 2048x2048,2048x2048 --dtype bfloat16 --sweep")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    parts = {"kernels": show_kernels, "models": show_models}
    for name in sys.argv[1:] or parts:
        parts[name]()
