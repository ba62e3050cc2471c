"""Operators as values: what `op=nl.add` or `op=np.exp` means to an instruction, by trine's names of ALU and activation.

An Op is also the nki.language function of that name; language.py gives it its body.
"""

import inspect

from trine.nki.trace import error

# NumPy and Python spellings that differ from NKI's
_FOREIGN = {
    "maximum": "max", "minimum": "min", "amax": "max", "amin": "min", "true_divide": "divide",
    "absolute": "abs", "conjugate": "bypass", "power": "power", "remainder": "mod", "sum": "add", "prod": "multiply",
}  # fmt: skip


class Op:
    """A callable with the ALU operator and the activation function it names, either may be None."""

    def __init__(self, name, alu=None, act=None, body=None):
        self.__name__ = self.__qualname__ = name
        self.alu, self.act, self.body = alu, act, body
        self.__doc__ = body.__doc__ if body else None
        if body is not None:
            body.__name__ = body.__qualname__ = name  # what Python's own messages call it
            self.__signature__ = inspect.signature(body)

    def __call__(self, *args, **kwargs):
        if self.body is None:
            raise error("NKI018", f"nl.{self.__name__} called", "nl." + self.__name__ + " as the op of an instruction")
        return self.body(*args, **kwargs)

    def __repr__(self):
        return f"nl.{self.__name__}"


registry = {}  # name -> Op


def define(name, alu=None, act=None, body=None):
    op = registry[name] = Op(name, alu, act, body)
    return op


def _lookup(op):
    if isinstance(op, Op):
        return op
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    return registry.get(_FOREIGN.get(name, name)) or registry.get(name)


def alu(op, slot="op"):
    """The ALU operator's name; None stays None."""
    if op is None:
        return None
    found = _lookup(op)
    if found is None or found.alu is None:
        raise error("NKI018", f"{slot}={getattr(op, '__name__', op)}", "an operator of the ALU, such as nl.add",
                    "functions like nl.exp run on the Scalar engine: nisa.activation")
    return found.alu


def act(op, slot="op"):
    found = _lookup(op)
    if found is None or found.act is None:
        raise error("NKI018", f"{slot}={getattr(op, '__name__', op)}", "an activation function, such as nl.exp")
    return found.act
