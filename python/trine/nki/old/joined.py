"""`mask=(i < n and j < m)`: Python gives `and` no way to be overloaded, so a kernel that uses it is compiled once more
with `and` as a call. It means the same as before wherever no mask is involved; lines stay where they were.
"""

import ast
import functools
import inspect
import textwrap
import types

from trine.nki.old.index import Mask

_NAME, _INNER = "_trine_both", "_trine_kernel"


def both(*parts):
    """`a and b and …` of values still to be computed; masks are joined."""
    value = parts[0]()
    for part in parts[1:]:
        if isinstance(value, Mask):
            value = value & part()
        elif value:
            value = part()
        else:
            return value
    return value


class _Ands(ast.NodeTransformer):
    def __init__(self):
        self.found = False

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.And) or any(isinstance(n, (ast.NamedExpr, ast.Yield, ast.Await)) for n in ast.walk(node)):
            return node
        self.found = True
        none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        parts = [ast.Lambda(args=none, body=v) for v in node.values]
        call = ast.Call(func=ast.Name(id=_NAME, ctx=ast.Load()), args=parts, keywords=[])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def join_masks(fn):
    """The kernel with `and` as a call; the kernel itself when it has none or its source is not at hand."""
    if _NAME in fn.__code__.co_freevars:
        return fn
    try:
        source = textwrap.dedent(inspect.getsource(fn))
        if " and " not in source:
            return fn
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError, IndentationError):
        return fn
    made = tree.body[0]
    ands = _Ands()
    ands.visit(made)
    if not ands.found or not isinstance(made, ast.FunctionDef):
        return fn
    made.decorator_list, made.name = [], _INNER  # not its own: the kernel may mention itself
    free = [*fn.__code__.co_freevars, _NAME]
    outer = ast.parse(f"def outer({', '.join(free)}):\n  pass").body[0]
    outer.body = [made]
    tree.body = [outer]
    ast.increment_lineno(tree, fn.__code__.co_firstlineno - 1)
    code = compile(tree, fn.__code__.co_filename, "exec")
    body = _inner(_inner(code, "outer"), _INNER).replace(co_name=fn.__name__, co_qualname=fn.__qualname__)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()), **{_NAME: types.CellType(both)})
    new = types.FunctionType(body, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[n] for n in body.co_freevars))
    new.__kwdefaults__ = fn.__kwdefaults__
    return functools.update_wrapper(new, fn)


def _inner(code, name):
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
