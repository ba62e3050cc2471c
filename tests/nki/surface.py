"""The public names of NKI, as the Neuron SDK's own documentation stubs and other people's imports have them.

`python tests/nki/surface.py SDK > tests/nki/surface.txt` reads a clone of github.com/aws-neuron/aws-neuron-sdk; only names and
parameters are kept. test_surface.py holds trine.nki against the list.
"""

import ast
import subprocess
import sys

# What the list is made from: the stubs of the current dialect at each release, the functional dialect's last.
CURRENT = {"2.27": "337e6041", "2.28": "86a92868", "2.29": "539a73c5", "2.30": "3afa0fdf", "2.31": "ee7d6e00", "2.32": "81ce03ae"}
OLD = {"2.26": "v2.26.1"}
STUBS = "nki/api/nki"
# Not in the stubs, but imported by kernels in public repositories.
IMPORTED = """
nki.compiler
nki.compiler.enable_stack_allocator
nki.compiler.multi_buffer
nki.compiler.no_reorder
nki.compiler.skip_middle_end_transformations
nki.dtype
nki.dtype.float8_e4m3
nki.dtype.float8_e4m3fn_x4
nki.isa.constants
nki.isa.constants.dge_mode
nki.isa.constants.engine
nki.isa.constants.matmul_perf_mode
nki.isa.constants.oob_mode
nki.language.NKIObject
nki.language.buffers.is_hbm
nki.language.buffers.shared_hbm
nki.language.range
nki.language.tensor.NkiTensor
nki.typing.Tensor
nki.typing.mutable_tensor
nki.typing.tensor
neuronxcc.nki.isa.constants.oob_mode
neuronxcc.nki.language.par_dim
neuronxcc.nki.typing.mutable_tensor
neuronxcc.nki.typing.tensor
""".split()


def git(sdk, *words):
    return subprocess.run(["git", "-C", sdk, *words], check=True, capture_output=True, text=True).stdout


def parameters(function):
    a = function.args
    return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.arg != "self"]


def assigned(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [t.id for t in targets if isinstance(t, ast.Name)]


def names_of(tree, prefix):
    """(name, parameters or None) of what a module or class defines."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, parameters(node)
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name, None
            yield from names_of(node, f"{prefix}{node.name}.")
        else:
            yield from ((prefix + name, None) for name in assigned(node))


def collect(sdk, releases, package):
    found = {}
    for release, commit in releases.items():
        for path in git(sdk, "ls-tree", "-r", "--name-only", commit, STUBS).split():
            if path.endswith("/__init__.py"):
                module = package + path.removeprefix(STUBS).removesuffix("/__init__.py").replace("/", ".")
                for name, takes in names_of(ast.parse(git(sdk, "show", f"{commit}:{path}")), module + "."):
                    if not any(part.startswith("_") for part in name.split(".")):
                        found.setdefault(name, [takes, []])[0] = takes  # the newest release's
                        found[name][1].append(release)
    return found


def main(sdk):
    print("# Made by tests/nki/surface.py: name, parameters, releases of the Neuron SDK whose stubs have it.")
    for package, releases in (("nki", CURRENT), ("neuronxcc.nki", OLD)):
        for name, (takes, seen) in sorted(collect(sdk, releases, package).items()):
            span = seen[0] if seen[0] == seen[-1] else f"{seen[0]}-{seen[-1]}"
            print(name + ("" if takes is None else f"({', '.join(takes)})"), span, sep="\t")
    for name in IMPORTED:
        print(name, "imports", sep="\t")


if __name__ == "__main__":
    main(sys.argv[1])
