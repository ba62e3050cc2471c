"""The main job, start to end: one matrix multiply as a NeuronCore program on three generations of virtual chips.

Values are computed instruction by instruction and checked against NumPy; time, energy and dollars come from timing
the same program; a timeline picture is written to out/.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

import matmul
from trine import _core

M, N, K = 1024, 2048, 2048
INSTANCES = ["trn1.2xlarge", "trn2.3xlarge", "trn3-gen1-ultraserver"]
OUT = Path(__file__).resolve().parent.parent / "out"


def check_values(program, chip, lhsT, rhs, expected):
    """Runs every instruction on the chip; returns the largest error against NumPy, or stops."""
    result = program.run({"lhsT": lhsT, "rhs": rhs}, chip=chip)
    for finding in result.findings:
        print(finding, file=sys.stderr)
    error = float(np.abs(result.outputs["out"] - expected).max())
    if result.findings or error > 1e-3:
        sys.exit(f"demo: values on {chip} are off by {error:.1e}")
    return error


def seconds(ns):
    for unit, scale in (("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns:.3g} ns"


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))


def main():
    rng = np.random.default_rng(0)
    lhsT, rhs = (rng.standard_normal((K, n)).astype(np.float32) for n in (M, N))
    expected = lhsT.astype(np.float64).T @ rhs.astype(np.float64)
    text = matmul.blocked_k(M, N, K)
    program = _core.assemble(text)
    OUT.mkdir(exist_ok=True)
    (OUT / "demo.tasm").write_text(text)
    print(f"matmul {M}×{N}×{K} f32, one core, the same program on each chip\n")
    rows = [("instance", "bound by", "time", "90 % band", "MFU", "energy", "cost", "max error")]
    for instance in INSTANCES:
        timed = _core.time(program, instance).report()
        error = check_values(program, timed["chip"], lhsT, rhs, expected)
        low, high = timed["band_ns"]
        cost = "not published" if timed["cost_usd"] is None else f"${timed['cost_usd'] * 1e6:.3f} per million"
        rows.append((instance, timed["bound"]["by"], seconds(timed["time_ns"]), f"{seconds(low)} – {seconds(high)}",
                     f"{timed['mfu_pct']:.1f} %", f"{timed['energy_j'] * 1e3:.1f} mJ", cost, f"{error:.1e}"))
    table(rows)
    print("\nvalues agree with NumPy on every chip (f32 sums in another order)")
    for picture in ("demo.svg", "demo.png"):
        subprocess.run(["trine", "run", OUT / "demo.tasm", "--instance", "trn2.3xlarge", "--picture", OUT / picture],
                       check=True, stdout=subprocess.DEVNULL)
    print("timeline on trn2 → out/demo.svg, out/demo.png")
    print("next: trine explain out/demo.tasm --instance trn2.3xlarge")


if __name__ == "__main__":
    main()
