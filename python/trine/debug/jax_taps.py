"""Dumps, replacement and the watch for NaN inside JAX programs: host calls written into the module before it is compiled.

A function that several places call is copied for each of them, so that every op has one name: the scopes around it and
its own. Without a wish the module is left alone.
"""

import re

import numpy as np
from jax._src import compiler, debugging
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir

from trine.debug import names
from trine.jax import callbacks

SILENT = {"constant", "iota", "broadcast_in_dim", "reshape", "transpose", "slice", "concatenate", "select", "convert", "pad", "gather", "dynamic_slice",
          "dynamic_update_slice", "get_tuple_element", "while", "case", "if", "custom_call", "optimization_barrier", "compare", "reverse", "after_all", "sort"}  # fmt: skip
INSIDE = {"while", "case", "if"}
FLOATS = ("f32", "bf16", "f16", "f64")
held = []  # functions' numbers live as long as the process


def register(platform):
    known = compiler.backend_compile_and_load

    def backend_compile_and_load(backend, module, *rest):
        if names.wanted and backend.platform == platform:
            Writer(module).write()
        return known(backend, module, *rest)

    compiler.backend_compile_and_load = backend_compile_and_load
    debugging._format_print_callback = with_rank(debugging._format_print_callback)


def with_rank(known):
    """jax.debug.print's function, saying of which process its line is."""
    def print_callback(fmt, *rest, **named):
        return known(names.prefix() + fmt, *rest, **named)

    return print_callback


class Writer:
    """Host calls into one module."""

    def __init__(self, module):
        self.module, self.table, self.copies = module, ir.SymbolTable(module.operation), 0

    def write(self):
        with self.module.context:
            self.block(self.table["main"].regions[0].blocks[0], "")

    def block(self, block, prefix):
        for op in list(block.operations):
            kind = op.operation.name.removeprefix("stablehlo.")
            name, line = described(op.operation, prefix)
            if kind == "func.call":
                self.call(op, name)
            elif kind in INSIDE:
                for region in op.operation.regions:
                    for inner in region.blocks:
                        self.block(inner, prefix)
            elif op.operation.name.startswith("stablehlo."):
                self.tap(op.operation, kind, name, line)

    def call(self, op, name):
        callee = ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value
        found = self.table[callee]
        self.copies += 1
        own = f"{callee}_tap{self.copies}"
        with ir.InsertionPoint(found):
            copy = found.operation.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(own)
        op.operation.attributes["callee"] = ir.FlatSymbolRefAttr.get(own)
        self.table = ir.SymbolTable(self.module.operation)
        self.block(copy.regions[0].blocks[0], name)

    def tap(self, op, kind, name, line):
        if len(op.results) != 1 or not is_tensor(op.results[0]):
            return
        result = op.results[0]
        wanted, file = names.wanted, names.replacement(name)
        if file is not None:
            made = self.insert(op, Replace(name, file), [result], [result.type])
            result.replace_all_uses_except(made.results[0], made.operation)
            result = made.results[0]
        if wanted.dump and names.matches(name, wanted.dump):
            self.insert(result.owner, Dump(name), [result], [])
        if wanted.fails and kind not in SILENT and is_float(result):
            self.insert(result.owner, Check(name, line), [result, *[v for v in op.operands if is_tensor(v)]], [])

    def insert(self, after, function, operands, types):
        lowered = callbacks.Lowered()
        held.append(lowered)
        number = callbacks.functions.add(function, lowered)
        parent = after.operation.block if hasattr(after, "operation") else after.block
        following = list(parent.operations)
        at = next(i for i, o in enumerate(following) if o.operation == after) + 1
        with ir.InsertionPoint(following[at]), after.location:
            results = types or [ir.Type.parse("!stablehlo.token")]
            return mlir.custom_call(callbacks.TARGET, result_types=results, operands=operands, backend_config=str(number), has_side_effect=True, api_version=1)


def is_tensor(value):
    return isinstance(value.type, ir.RankedTensorType)


def is_float(value):
    return str(ir.RankedTensorType(value.type).element_type) in FLOATS


def described(op, prefix):
    """(scopes and op, the user's line)"""
    text = str(op.location)
    found = re.match(r'loc\("([^"]*)"', text)
    parts = [p for p in (found[1] if found else "").split("/") if p and not re.fullmatch(r"p?jit(\(.*\))?:?", p)]
    lines = re.findall(r'"([^"]+\.py)":(\d+)', text)
    line = f"{lines[0][0]}:{lines[0][1]}" if lines else ""
    return "/".join([*([prefix] if prefix else []), *parts]), line


class Tap:
    """A host function of one op: takes the tensors, counts the calls."""

    def __init__(self, name, line=""):
        self.name, self.line, self.calls = name, line, 0

    def __call__(self, inputs, outputs):
        step, self.calls = self.calls, self.calls + 1
        self.run(step, [t.array() for t in inputs], outputs)


class Dump(Tap):
    def run(self, step, arrays, outputs):
        names.write(self.name, step, arrays[0])


class Replace(Tap):
    def __init__(self, name, file):
        super().__init__(name)
        self.file = file

    def run(self, step, arrays, outputs):
        import ctypes

        value = np.ascontiguousarray(names.read(self.file, arrays[0]))
        ctypes.memmove(outputs[0].data, value.ctypes.data, value.nbytes)


class Check(Tap):
    def run(self, step, arrays, outputs):
        kind = names.trouble(arrays[0], arrays[1:])
        if kind:
            raise FloatingPointError(names.message(kind, self.name, self.line, step, arrays[0], arrays[1:]))
