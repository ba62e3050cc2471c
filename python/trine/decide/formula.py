"""Formulas that are written once: computed here over numbers or arrays, and as live formulas of a spreadsheet.

An expression is Python's: + - * / **, comparisons, names, max, ceil, log and where(condition, then, else).
"""

import ast
import functools

import numpy

FUNCTIONS = {"max": numpy.maximum, "ceil": numpy.ceil, "log": numpy.log, "where": numpy.where}
EXCEL = {"max": "MAX", "log": "LN", "where": "IF"}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
COMPARISONS = {ast.Gt: ">", ast.Lt: "<", ast.GtE: ">=", ast.LtE: "<=", ast.Eq: "=", ast.NotEq: "<>"}


@functools.cache
def compiled(expression, name):
    return compile(expression, name, "eval")


def evaluate(lines, names):
    """`names` with the value of every line [(name, unit, expression)], in order."""
    out, known = dict(names), {"__builtins__": {}, **FUNCTIONS}
    with numpy.errstate(divide="ignore", invalid="ignore"):  # the branch of a where that is not taken
        for name, _, expression in lines:
            out[name] = eval(compiled(expression, name), known, out)  # noqa: S307
    return out


def excel(expression, cell_of):
    """The formula's text for a sheet where cell_of(name) is a name's cell."""

    def text(node):
        match node:
            case ast.BinOp():
                return f"({text(node.left)}{OPERATORS[type(node.op)]}{text(node.right)})"
            case ast.UnaryOp():
                return f"(-{text(node.operand)})"
            case ast.Compare():
                return f"({text(node.left)}{COMPARISONS[type(node.ops[0])]}{text(node.comparators[0])})"
            case ast.Call() if node.func.id == "ceil":
                return f"ROUNDUP({text(node.args[0])},0)"
            case ast.Call():
                return f"{EXCEL[node.func.id]}({','.join(text(a) for a in node.args)})"
            case ast.Name():
                return cell_of(node.id)
            case ast.Constant():
                return repr(node.value)
        raise ValueError(f"{ast.unparse(node)}: not an expression that a sheet has")

    return text(ast.parse(expression, mode="eval").body)
