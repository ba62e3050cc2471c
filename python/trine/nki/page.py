"""Prints docs/nki.md: what of NKI there is, from the functions themselves, the instruction rows and the error table."""

import inspect
import re

from trine.nki import collectives, dtypes, isa, isa_compute, isa_move, isa_rows, lacking, language, machine, ops
from trine.nki.errors import RULES
from trine.nki.old import compiler as old_compiler
from trine.nki.old import isa as old_isa
from trine.nki.old import language as old_language

OLD_LIMITS = [
    "Every loop is unrolled while tracing, so loop indices are integers, and a mask of loop indices alone is a condition.",
    "A mask is a box of the tile: bounds on one index each, joined by `&` (or `and`). A call on a tile that a masked load "
    "filled in part works on that part; on the chip it computes the rest too, which nobody may use.",
    "`nki.benchmark` and `nki.profile` time with the same timer as `trine.report`. It is deterministic: every percentile is "
    "the same number. No values are computed; results have the right shape and hold NaN. Saved programs and traces are "
    "Trine's own formats under the names asked for.",
    "`nki.compiler` placement (`sbuf`, `psum`: `alloc`, `mod_alloc`) is obeyed unless `force_auto_alloc` says otherwise; its "
    "other directives are accepted and have no effect, except `no_reorder` and `skip_middle_end_transformations`.",
    "Neuron's tensorizer rearranged such kernels, and so they are timed: what is loaded or computed again is merged, loops "
    "are joined, and what does not fit into SBUF comes again ([bytes of kernels](decisions/20261117-bytes-of-kernels.md)). "
    "`skip_middle_end_transformations` leaves a kernel as it is.",
]
# What is there with a limit that NKI has not.
LIMITS = [
    "`.indirect()` gathers; scattering through it is refused. The number of elements is a multiple of 16.",
    "`nki.collectives` and `nki.simulate(kernel, ranks=n)` reach the cores of one chip.",
    "A device loop whose bounds are in registers steps by a power of two.",
    "`get_nc_sub_version()` is 0: the first revision of each chip.",
]


INSIDE = """## Inside PyTorch and JAX

A kernel called on tensors of torch or JAX runs by itself. A kernel called while `jax.jit` or
`torch.compile(backend="neuron")` traces becomes part of the program. Its values are then exact ones inside a native program, and its
instructions stand between the others in time (`trine.report`, `trine.timed`). You give its gradient: `jax.custom_vjp`
in JAX, and in torch as torch-neuronx spells it:

```python
from torch_neuronx import nki_op

@nki_op("mine::rmsnorm", mutates_args={})
def rmsnorm_op(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return rmsnorm(x, w)                     # an @nki.jit kernel; other torch ops may stand beside it

rmsnorm_op.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
```

A kernel over several cores, or one that prints, becomes a callback to Python in JAX. In torch it is refused, with the reason.
"""

def isa_functions():
    """(name, function, the rows its body names) of every nki.isa function."""
    rows = machine.rows()
    for module in (isa_compute, isa_move):
        for name, f in vars(module).items():
            if not inspect.isfunction(f) or name.startswith(("_", "register_")) or getattr(isa, name, None) is not f:
                continue
            named = re.findall(r'emit\(\s*"(\w+)"', inspect.getsource(f))
            yield name, f, [rows[r] for r in named if r in rows]
    yield from ((name, getattr(isa_rows, name), [rows[name]]) for name in isa_rows.CALLS)


def signature(f):
    """The parameters with plain defaults, as people write them."""
    parts = []
    for p in inspect.signature(f).parameters.values():
        default = p.default
        if default is inspect.Parameter.empty:
            parts.append(p.name)
        else:
            text = f"{type(default).__name__}.{default.name}" if hasattr(default, "name") else repr(default)
            parts.append(f"{p.name}={text}")
    return ", ".join(parts)


def isa_table():
    yield "| call | engines | needs | meaning |"
    yield "|---|---|---|---|"
    for name, f, rows in sorted(isa_functions()):
        engines = sorted({e for r in rows for e in r["engines"]}) if rows else []
        shown = "DMA queue" if rows and rows[0]["unit"] == "queue" else ", ".join(engines) if len(engines) < 5 else "any"
        needs = ", ".join(sorted({f"`{r['needs']}`" for r in rows if r["needs"] != "base"}))
        summary = rows[0]["says"] if rows else (f.__doc__ or "").split("\n")[0]
        yield f"| `{name}({signature(f)})` | {shown} | {needs} | {summary.replace('|', '¦')} |"
    for name in ("register_alloc", "register_load", "register_move", "register_store"):
        row = machine.rows()[name]
        yield f"| `{name}({signature(getattr(isa, name))})` | any |  | {row['says']} |"


def language_lists():
    kinds = {"operators and functions": [], "creation, movement, loops, the rest": []}
    for name, value in vars(language).items():
        if name.startswith("_") or inspect.ismodule(value) or getattr(value, "__module__", "").startswith("contextlib"):
            continue
        if isinstance(value, ops.Op):
            kinds["operators and functions"].append(name)
        elif inspect.isfunction(value) and name not in ("current", "error", "missing", "tracing"):
            kinds["creation, movement, loops, the rest"].append(name)
    for kind, names in kinds.items():
        yield f"- {kind}: " + ", ".join(f"`{n}`" for n in sorted(names))
    yield "- dtypes: " + ", ".join(f"`{n}`" for n in dtypes.by_name)


def old_section():
    """The functional dialect: its names, what of it is missing and how it differs."""
    yield "`neuronxcc.nki` up to SDK 2.26, by `python/compat`: results are returned, `mask=` on every call, `nl.arange` and"
    yield "`nl.mgrid` index, `par_dim` with block dimensions. It records the same instructions."
    yield ""
    own = {n: v for n, v in vars(old_language).items() if not n.startswith("_") and not inspect.ismodule(v)}
    made = [n for n, v in own.items() if inspect.isfunction(v) and v.__module__ == old_language.__name__]
    calls = sorted(set(made + [n for n, v in own.items() if isinstance(v, ops.Op)]))
    rest = ["arange", "mgrid", "ds", "par_dim", "tile_size", "affine_range", "sequential_range", "static_range",
            "program_id", "num_programs", "program_ndim", "nc", "spmd_dim"]  # fmt: skip
    yield "- `nki.language`: " + ", ".join(f"`{n}`" for n in calls)
    yield "- indices, loops, the grid: " + ", ".join(f"`{n}`" for n in rest if n in own)
    isa_names = [n for n, v in vars(old_isa).items() if inspect.isfunction(v) and v.__module__ == old_isa.__name__]
    yield "- `nki.isa`: " + ", ".join(f"`{n}`" for n in sorted(isa_names) if not n.startswith("_"))
    allocators = ["sbuf.alloc", "sbuf.mod_alloc", "sbuf.auto_alloc", "psum.alloc", "psum.mod_alloc", "psum.auto_alloc"]
    directives = [n for n, v in vars(old_compiler).items() if n in _DIRECTIVES]
    yield "- `nki.compiler`: " + ", ".join(f"`{n}`" for n in allocators + sorted(directives))
    yield "- `nki`: `jit(mode=…, platform_target=…)`, `baremetal`, `benchmark`, `profile`, `simulate_kernel`, `trace`"
    yield ""
    yield "Not here:"
    yield ""
    yield from (f"- `{name}`: {why}" for name, why in lacking.OLD.items())
    yield ""
    yield "How it differs:"
    yield ""
    yield from (f"- {text}" for text in OLD_LIMITS)


_DIRECTIVES = ("allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer", "no_reorder",
               "skip_middle_end_transformations")  # fmt: skip


def page():
    yield "# NKI kernels"
    yield ""
    yield "Generated by `python -m trine.nki.page`."
    yield ""
    yield "`trine.nki` is the current dialect (0.6). The functional dialect of SDK 2.26 and before is `neuronxcc.nki`, from"
    yield "`python/compat`. A first kernel, step by step: [tutorial](tutorials/write_an_nki_kernel.md). Kernels to read:"
    yield "[examples/nki](../examples/nki)."
    yield ""
    yield "Calling a kernel on arrays gives exact values: every instruction is carried out on simulated memory. `trine.report`,"
    yield "`trine.explain` and `trine nki` give its time, from shapes alone."
    yield ""
    yield "## nki.isa"
    yield ""
    yield from isa_table()
    yield ""
    yield "## nki.language"
    yield ""
    yield from language_lists()
    yield ""
    yield "## nki.collectives"
    yield ""
    names = [n for n, f in vars(collectives).items() if inspect.isfunction(f) and f.__module__ == collectives.__name__]
    yield ", ".join(f"`{n}`" for n in sorted(names) if not n.startswith("_"))
    yield ""
    yield "## Not here"
    yield ""
    yield from (f"- `{name}`: {why}" for name, why in lacking.CURRENT.items())
    yield ""
    yield "Here with a limit:"
    yield ""
    yield from (f"- {text}" for text in LIMITS)
    yield ""
    yield "## The functional dialect"
    yield ""
    yield from old_section()
    yield ""
    yield INSIDE
    yield "## Errors"
    yield ""
    yield "Every illegal use is one exception, `trine.NkiError`, with `code`, `rule`, `file`, `line`, `found`, `expected`, `fix`."
    yield "What no result depends on is a warning: two cores that store the same bytes to one place, and memory that is read, that"
    yield "nobody wrote and whose value changes no result (the kernel is run again with other values there)."
    yield ""
    yield "| code | rule |"
    yield "|---|---|"
    yield from (f"| {code} | {rule} |" for code, rule in RULES.items())


if __name__ == "__main__":
    print("\n".join(page()))
