"""The OpInfo sweep: torch's own samples of every operator, forward and gradient, each ATen op on the way compared.

`python tests/torch/sweep.py [--dtypes f32,i64] [--ops name,...] [--samples N]` prints what failed, was declined and
lacks a row; exit code 1 when less than 95 % of the comparisons agree. `make test-torch` runs it whole.
"""

import argparse
import pathlib
import sys
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from differ import Differ  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
          "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64}
SKIPPED = ("linalg.", "sparse", "_segment_reduce", "nn.functional.ctc_loss", "to_sparse", "special.airy")


def infos():
    from torch.testing._internal.common_methods_invocations import foreach_unary_op_db, op_db

    return op_db, foreach_unary_op_db


def samples(info, dtype, count):
    grad = dtype.is_floating_point and info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    found = info.sample_inputs("cpu", dtype, requires_grad=grad)
    for i, sample in enumerate(found):
        if i >= count:
            return
        yield sample, grad


def run_sample(info, sample, grad):
    from torch.utils._pytree import tree_flatten

    out = info(sample.input, *sample.args, **sample.kwargs)
    if not grad:
        return
    tensors = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    if tensors:
        torch.autograd.backward([t.sum() if not t.is_complex() else t.abs().sum() for t in tensors])


def sweep(dtypes, names=None, count=4, differ=None, skip=SKIPPED):
    differ = differ or Differ()
    trouble = {}
    for info in infos()[0]:
        if (names and info.name not in names) or info.name.startswith(skip):
            continue
        for dtype in dtypes:
            if dtype not in info.dtypes:
                continue
            torch.manual_seed(0)
            try:
                for sample, grad in samples(info, dtype, count):
                    with differ:
                        run_sample(info, sample, grad)
            except Exception as e:  # torch's own limits; listed
                trouble[f"{info.name} {dtype}"] = f"{type(e).__name__}: {str(e)[:150]}"
    return differ, trouble


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtypes", default="f32,i64,bool,bf16")
    parser.add_argument("--ops")
    parser.add_argument("--samples", type=int, default=6)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = set(options.ops.split(",")) if options.ops else None
    differ, trouble = sweep([DTYPES[d] for d in options.dtypes.split(",")], names, options.samples)
    good, bad = sum(differ.passed.values()), sum(map(len, differ.failed.values()))
    for name, why in sorted(differ.failed.items()):
        print(f"failed    {name} {len(why)} of {len(why) + differ.passed[name]}: {why[0]}")
    for name, why in sorted(differ.declined.items()):
        print(f"declined  {name}: {why.most_common(1)[0]}")
    for name, count in differ.lacking.most_common():
        print(f"no row    {name} {count}")
    for name, why in trouble.items():
        print(f"trouble   {name}: {why}")
    share = good / max(good + bad, 1)
    print(f"{good} of {good + bad} comparisons agree ({share:.1%}), {len(differ.passed)} overloads")
    return 0 if share >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
