"""`trine nki FILE.py::kernel`: a kernel's time from its shapes, on one instance or over all of them.

src/tools/commands/nki.cpp has its options. Data goes to stdout, everything else to stderr.
"""

import ast
import difflib
import importlib.util
import inspect
import json
import os
import sys
import traceback

import numpy as np

from trine import _core
from trine.command import CHECK_FAILED, OK, OUT_OF_MEMORY, OUTSIDE, UNSUPPORTED, USAGE, Stop, note
from trine.nki import arrays, compare, dtypes, machine, tune
from trine.nki.errors import NkiError
from trine.nki.kernel import Kernel, jit
from trine.nki.kernel import run as run_kernel
from trine.text import aligned, duration

CAPACITY = ("NKI019", "NKI030")  # codes of what does not fit


# --- what was asked for ---


def load_kernel(target):
    """The kernel that FILE.py::name means; the name may be left out where the file has one kernel."""
    path, _, name = target.partition("::")
    if not os.path.isfile(path):
        raise Stop(OUTSIDE, f"no file {path}; expected FILE.py::kernel")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    if spec is None:
        raise Stop(USAGE, f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    kernels = [n for n, v in vars(module).items() if isinstance(kernel_of(v), Kernel)]
    if not name and len(kernels) != 1:
        raise Stop(USAGE, f"{path} has {', '.join(kernels) or 'no kernel'}; name one: {path}::kernel")
    found = getattr(module, name or kernels[0], None)
    if isinstance(kernel_of(found), Kernel):
        return kernel_of(found)
    if inspect.isfunction(found):
        return jit(found)
    near = difflib.get_close_matches(name, kernels, 1, 0) or kernels
    raise Stop(USAGE, f"no kernel {name} in {path}" + (f"; nearest: {near[0]}" if near else ""))


def kernel_of(value):
    """A kernel, also from a benchmark of it."""
    return value if isinstance(value, Kernel) else getattr(value, "kernel", None)


def read_dtype(text):
    found = dtypes.find(text) or dtypes.by_trine.get(text)
    if found is None:
        raise Stop(USAGE, f"no dtype {text}; expected one of {', '.join(dtypes.by_name)}")
    return found


def read_shape(text, dtype):
    """128x512 or 128x512:bfloat16."""
    sizes, _, own = text.partition(":")
    shape = tuple(int(n) if n.isdecimal() else 0 for n in sizes.split("x"))
    if 0 in shape:
        raise Stop(USAGE, f"found shape {sizes}, expected sizes from 1 joined by x, for example 128x512")
    return arrays.ShapeDtype(shape, read_dtype(own) if own else dtype)


def read_arguments(kernel, asked, chosen=()):
    """Keyword arguments of the kernel, from --shapes and --arg; those `chosen` come from --tune."""
    names = list(inspect.signature(kernel.fn).parameters)
    dtype, given = read_dtype(asked.dtype), {}
    for at, part in enumerate(p for p in (asked.shapes or "").split(",") if p):
        name, equals, text = part.partition("=")
        if not equals:
            if at >= len(names):
                raise Stop(USAGE, f"{kernel.__name__} takes {', '.join(names)}; found a shape more: {part}")
            name, text = names[at], part
        if name in given:
            raise Stop(USAGE, f"{name} has a shape already; found another: {part}")
        given[name] = read_shape(text, dtype)
    for part in asked.arg:
        name, equals, text = part.partition("=")
        if not equals:
            raise Stop(USAGE, f"found --arg {part}, expected NAME=VALUE")
        try:
            given[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            given[name] = text
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1, 0)
            raise Stop(USAGE, f"{kernel.__name__} has no parameter {name}" + (f"; nearest: {near[0]}" if near else ""))
    lacking = [n for n, p in inspect.signature(kernel.fn).parameters.items()
               if n not in given and n not in chosen and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]  # fmt: skip
    if lacking:
        raise Stop(USAGE, f"{kernel.__name__} needs {', '.join(lacking)}: --shapes {lacking[0]}=128x512 for an array, "
                          f"--arg {lacking[0]}=VALUE for the rest")  # fmt: skip
    return given


def read_grid(kernel, text):
    try:
        return kernel[tuple(int(n) for n in text.split(","))] if text else kernel
    except ValueError:
        raise Stop(USAGE, f"found --grid {text}, expected numbers, for example 4,2") from None


def read_instance(kernel, name):
    """--instance, or the one that the kernel's target and the environment mean."""
    try:
        if name is None:
            return machine.instance_of_chip(machine.target_chip(kernel.target, kernel.where()))
        machine.instance(name)
    except ValueError as e:
        raise Stop(USAGE, str(e)) from None
    return name


# --- what comes out ---


def random_arrays(given, seed):
    """The arguments with standard normal (whole, for integers) data for every shape."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, value in given.items():
        if isinstance(value, arrays.ShapeDtype):
            if value.dtype.numpy is None:
                raise Stop(UNSUPPORTED, f"{name} is {value.dtype}, which NumPy cannot hold; --values needs arrays")
            whole = not value.dtype.is_float
            data = rng.integers(0, 2, value.shape) if whole else rng.standard_normal(value.shape)
            value = data.astype(value.dtype.numpy)
        out[name] = value
    return out


def show_values(kernel, given, asked, instance):
    chip = machine.instance(instance)["chip"]
    compiled, data = kernel.compiled(chip, (), random_arrays(given, asked.seed))
    result = run_kernel(compiled, chip, data)
    results = result if isinstance(result, (tuple, list)) else [result]
    rows = []
    for i, r in enumerate(r for r in results if r is not None):
        wide = np.asarray(r).astype(np.float64)
        rows.append({"result": i, "dtype": str(r.dtype), "shape": list(r.shape), "min": wide.min(), "max": wide.max(),
                     "mean": wide.mean(), "nan": int(np.isnan(wide).sum())})  # fmt: skip
    if asked.json:
        return rows
    print(f"{kernel.__name__} on {chip}: values on random inputs, seed {asked.seed}; nothing the machine would refuse")
    for r in rows:
        print(f"  result {r['result']}  {r['dtype']}{r['shape']}  min {r['min']:.6g}  max {r['max']:.6g}  mean {r['mean']:.6g}"
              + (f"  {r['nan']} NaN" if r["nan"] else ""))  # fmt: skip
    print()
    return rows


def sweep(kernel, given):
    """One row per instance that has NeuronCores for NKI; programs are compiled once per chip."""
    from trine.reports import report

    rows = []
    for instance in _core.instances():
        if machine.chip(instance["chip"])["generation"] < machine.FIRST_GENERATION:
            continue
        row = {"instance": instance["name"], "chip": instance["chip"]}
        try:
            r = report(kernel, instance=instance["name"], **given)
            row |= {"time_ns": r.time_ns, "band_ns": list(r.band), "bound": r.bound, "mfu_pct": 100 * r.mfu,
                    "mbu_pct": 100 * r.mbu, "cost_usd": r.cost_usd, "energy_j": r.energy_j}  # fmt: skip
        except NkiError as e:
            row |= {"refused": e.code, "why": e.found or e.rule, "line": e.line}
        except Exception as e:  # the kernel's own, which may be about this chip only
            row |= {"refused": type(e).__name__, "why": str(e)}
        rows.append(row)
    return rows


def sweep_table(kernel, rows):
    table = [["instance", "time", "90 % band", "bound by", "MFU", "MBU", "$ for 1M runs", "J/run"]]
    for r in rows:
        if "refused" in r:
            table.append([r["instance"], r["refused"], r["why"], "", "", "", "", ""])
            continue
        low, high = r["band_ns"]
        cost = "–" if r["cost_usd"] is None else f"{1e6 * r['cost_usd']:.4g}"
        table.append([r["instance"], duration(r["time_ns"]), f"{duration(low)} – {duration(high)}", r["bound"],
                      f"{r['mfu_pct']:.1f} %", f"{r['mbu_pct']:.1f} %", cost, f"{r['energy_j']:.3g}"])  # fmt: skip
    return f"{kernel.__name__} on one core of each\n\n" + aligned(table)


def one(kernel, given, asked, instance, out):
    """The report and what explains it on one instance; fills `out`, returns the text."""
    from trine.reports import explain, report

    made = report(kernel, instance=instance, **given)
    why = explain(kernel, instance=instance, all=asked.all, **given)
    out["time"], out["explain"] = json.loads(made.to_json()), json.loads(why.to_json())
    for path, draw in ((asked.trace, made.trace), (asked.picture, made.picture)):
        if path:
            try:
                draw(path)
            except ValueError as e:  # a name that says no format, a place that cannot be written
                raise Stop(OUTSIDE if "cannot create" in str(e) else USAGE, str(e)) from None
            note(f"→ {path}")
    return f"{made}\n\n{why}"


def answer(kernel, asked, other=None) -> int:
    given = read_arguments(kernel, asked, [t.partition("=")[0] for t in asked.tune])
    out = {"version": 1, "report": "nki", "kernel": kernel.__name__}
    instance = read_instance(kernel, asked.instance)
    if asked.tune or other:
        if asked.tune:
            made, text, code = tune.tuned(kernel, tune.read_choices(kernel, asked.tune, given), given, instance)
        else:
            read_arguments(other, asked)
            data = random_arrays(given, asked.seed) if asked.values else None
            made, text, code = compare.compared([kernel, other], asked.words, given, instance, data, run_kernel)
        print(json.dumps(out | {"tune" if asked.tune else "compare": made}, indent=2) if asked.json else text)
        return code
    if asked.values:
        out["values"] = show_values(kernel, given, asked, instance)
    if asked.sweep:
        out["sweep"] = sweep(kernel, given)
        text = sweep_table(kernel, out["sweep"])
    else:
        text = one(kernel, given, asked, instance, out)
    print(json.dumps(out, indent=2) if asked.json else text)
    return UNSUPPORTED if asked.sweep and all("refused" in row for row in out["sweep"]) else OK


def located(e, kernel):
    """The error at the kernel, where only this command's call is at fault."""
    if os.path.exists(e.file) or kernel is None:
        return e
    file, line = kernel.where()
    return NkiError(e.code, e.found, e.expected, e.fix, file=file, line=line, rule=e.rule)


def run(asked) -> int:
    kernel = None
    try:
        if asked.sweep and (asked.trace or asked.picture or asked.instance):
            raise Stop(USAGE, "--sweep is over all instances; --instance, --trace and --picture are for one")
        modes = [f"--{w}" for w in ("compare", "tune", "sweep") if getattr(asked, w)]
        if len(modes) > 1 or (modes and modes != ["--sweep"] and (asked.trace or asked.picture)):
            raise Stop(USAGE, f"found {' and '.join(modes)}, expected one of them, without --trace and --picture")
        if len(asked.words) != (2 if asked.compare else 1):
            raise Stop(USAGE, f"found {len(asked.words)} kernels, expected FILE.py::KERNEL, and two of them with --compare")
        kernel = read_grid(load_kernel(asked.words[0]), asked.grid)
        other = read_grid(load_kernel(asked.words[1]), asked.grid) if asked.compare else None
        return answer(kernel, asked, other)
    except NkiError as e:
        note(located(e, kernel))
        at_run_time = e.code >= "NKI040" and e.code != "NKI049"
        return OUT_OF_MEMORY if e.code in CAPACITY else CHECK_FAILED if at_run_time else UNSUPPORTED
    except (Stop, BrokenPipeError):
        raise
    except Exception as e:  # the kernel's own: an assertion, a name that is not there
        print_trace(e, kernel)
        return UNSUPPORTED


def print_trace(e, kernel):
    """The user's frames of an exception, without ours."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    frames = [f for f in traceback.extract_tb(e.__traceback__)
              if not f.filename.startswith((here, "<string>", "<frozen")) and f.line]  # fmt: skip
    lines = traceback.format_list(frames) + traceback.format_exception_only(e)
    what = f"{kernel.__name__} raised" if kernel else "the file raised"
    print(f"trine nki: {what}\n{''.join(lines)}", end="", file=sys.stderr)
