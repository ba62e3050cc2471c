"""NKI kernels of the corpus: those of examples/nki and of the dialects' own tests, by shape and dtype, on each chip.

A row is (file, kernel, arguments, chips): an argument is "64x512:bf16", an array of that shape without data, or a plain
value. Lines of the source stand in a listing relative to the kernel's first one, so that text above it may change.
"""

import functools
import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ALL = ("trn1", "trn2", "trn3")
TWO = ("trn1", "trn2")
LNC = ("trn2", "trn3")
DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "s32": "int32", "u8": "uint8", "u32": "uint32", "u16": "uint16", "s8": "int8"}

EXAMPLES, OLD, NEW, FUNCTIONAL = "examples/nki/{}.py", "tests/nki/old/test_kernels.py", "tests/nki/tutorials/test_current.py", "tests/nki/tutorials/test_functional.py"


def rows():
    example = EXAMPLES.format
    for t in ("f32", "bf16"):
        yield example("norms"), "layernorm", [f"200x1100:{t}", f"1100:{t}", f"1100:{t}"], {}, ALL
        yield example("norms"), "rmsnorm", [f"130x700:{t}", f"700:{t}"], {}, ALL
        yield example("norms"), "softmax", [f"260x333:{t}"], {}, ALL
        yield example("conv1d"), "conv1d", [f"64x700:{t}", f"5x64x96:{t}"], {}, ALL
        for schedule in ("narrow", "tiled", "hoisted", "blocked", "blocked_k"):
            yield example("matmul"), schedule, [f"512x512:{t}", f"512x1024:{t}"], {}, ALL
        for causal in (False, True):
            yield example("attention"), "flash_attention", [f"64x512:{t}", f"64x512:{t}", f"512x64:{t}"], {"causal": causal, "block": 256}, ALL
    yield example("attention"), "flash_attention", ["128x2048:bf16", "128x2048:bf16", "2048x128:bf16"], {"causal": True}, TWO
    for causal in (False, True):
        yield example("attention"), "flash_attention_backward", ["64x256", "64x256", "256x64", "256x64", "256x1", "256x64"], {"causal": causal}, ALL
    yield example("rope"), "rope", ["150x128", "150x64", "150x64"], {}, ALL
    yield example("scan"), "cumsum", ["100x1500"], {"chunk": 512}, ALL
    yield example("scan"), "topk", ["100x300", 24], {}, ALL
    yield example("cross_entropy"), "cross_entropy", ["140x3000", "140x1"], {}, ALL
    yield example("qkv"), "rmsnorm_qkv", ["2x256x384:bf16", "384x200:bf16"], {}, ALL
    # the functional dialect
    for t in ("f32", "f16", "bf16"):
        yield OLD, "add_tile[2,2]", [f"256x1024:{t}", f"256x1024:{t}"], {}, TWO
        yield OLD, "matmul_tiled", [f"384x256:{t}", f"384x1024:{t}"], {}, TWO
    yield OLD, "matmul_tile", ["128x64", "128x512"], {}, TWO
    yield OLD, "matmul_any", ["200x300", "300x700"], {}, TWO
    yield OLD, "average_pool", ["64x24x18", 3], {}, TWO
    yield OLD, "transpose_2d", ["100x35:s32", (5, 7)], {}, TWO
    for shape in ("128x300", "200x300", "512x64:bf16"):
        yield OLD, "softmax", [shape], {}, TWO
    yield OLD, "rms_norm", ["200x512", "512"], {}, TWO
    yield OLD, "layer_norm", ["300x700", 1e-5, "700", "700"], {}, TWO
    yield OLD, "layer_norm_by_statistics", ["300x700", 1e-5, "700", "700"], {}, TWO
    yield OLD, "attention", ["64x512:bf16", "64x512:bf16", "512x64:bf16", 0.125], {}, TWO
    yield FUNCTIONAL, "decays", ["128x128", "128x3", "128x128"], {}, TWO
    yield FUNCTIONAL, "placed_attention", ["64x512:bf16", "64x512:bf16", "512x64:bf16"], {}, TWO
    # the current dialect
    yield NEW, "add", ["256x2048:f16", "256x2048:f16"], {}, ALL
    yield NEW, "add[2]", ["256x2048:f16", "256x2048:f16"], {}, LNC
    yield NEW, "transpose_rows", ["5x1628:s32", 37, 44], {}, ALL
    yield NEW, "average_pool", ["2x6x12", 2], {}, ALL
    for form in ({}, {"states_outside": False}, {"states_outside": False, "step": 64}):
        yield NEW, "mamba", ["256x128", "256x128", "256x4", "4x128", "4x128"], form, ALL


@functools.cache
def module(path):
    """The file as a module; its folder and tests/ are looked in for what it imports."""
    for folder in (ROOT / "tests", (ROOT / path).parent):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location("replay_" + re.sub(r"\W", "_", path), ROOT / path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def argument(a):
    from trine.nki import arrays

    if not isinstance(a, str):
        return a
    shape, _, dtype = a.partition(":")
    return arrays.ShapeDtype(tuple(int(n) for n in shape.split("x")), DTYPES[dtype or "f32"])


def relative(text, file, first):
    """Lines of the kernel's file counted from its first."""
    return re.sub(rf" at {re.escape(file)}:(\d+)$", lambda m: f" at {file}:{int(m[1]) - first:+d}", text, flags=re.M)


def forms(path, name, arguments, named, chips):
    from replay.listings import said, shortened, timed

    kernel, _, grid = name.partition("[")
    kernel = getattr(module(path), kernel)
    if grid:
        kernel = kernel[tuple(int(n) for n in grid.rstrip("]").split(","))]
    out = {}
    for chip in chips:
        try:
            program = kernel.compiled(chip, [argument(a) for a in arguments], named)[0].program
            text, about = timed(program.disassemble(), [program], chip)
        except ValueError as e:
            text, about = said(e), "refused"
        out[chip] = shortened(relative(text, Path(path).name, kernel.where()[1])), about
    return out


def cases():
    for path, name, arguments, named, chips in rows():
        words = [str(a).replace(" ", "") for a in arguments] + [f"{k}={v}" for k, v in named.items()]
        yield f"{Path(path).stem}.{name} {' '.join(words)}", functools.partial(forms, path, name, arguments, named, chips)
