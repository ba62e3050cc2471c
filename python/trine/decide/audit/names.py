"""Which dotted name a name in a file stands for: through imports, `as`, and assignments such as `amp = torch.cuda.amp`.

Scopes are Python's: a function's own names hide those outside it. Where one name is imported twice (in `try` and `except`), all
its meanings count; a plain assignment beside an import (`flash_attn_func = None`) does not hide it.
"""

import ast

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef)


class Scope:
    """Names bound in one function or module: `meanings` of imports and aliases, and `others`, which hide outer ones."""

    def __init__(self, node, outer=None):
        self.outer = outer
        self.meanings, self.others, aliases = {}, set(), []
        self._bind(node, aliases)
        for name, value in aliases:
            self.others.discard(name)
            found = [] if value is None else [m for m in self.resolve(value) if m.partition(".")[0] != name]
            if found:
                self.meanings.setdefault(name, []).extend(found)
            elif name not in self.meanings:
                self.others.add(name)

    def _bind(self, node, aliases):
        arguments = getattr(node, "args", None)
        if isinstance(arguments, ast.arguments):
            for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
                if a is not None:
                    self.others.add(a.arg)
        body = node.body if isinstance(node.body, list) else [node.body]
        stack = list(reversed(body))
        while stack:
            n = stack.pop()
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                aliases.append((n.name, None))
                continue
            if isinstance(n, ast.Lambda):
                continue
            if isinstance(n, (ast.Import, ast.ImportFrom)):
                for name, meaning in imported(n):
                    self.meanings.setdefault(name, []).append(meaning)
            elif isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Name):
                is_name = isinstance(n.value, (ast.Name, ast.Attribute))
                aliases.append((n.targets[0].id, n.value if is_name else None))
                stack.append(n.value)
            elif isinstance(n, ast.Name):
                if isinstance(n.ctx, ast.Store):
                    aliases.append((n.id, None))
            else:
                stack.extend(ast.iter_child_nodes(n))

    def meanings_of(self, name):
        scope = self
        while scope is not None:
            if name in scope.meanings:
                return scope.meanings[name]
            if name in scope.others:
                return []
            scope = scope.outer
        return []

    def resolve(self, node):
        """The dotted names that a Name or a chain of attributes stands for; [] where it starts at a value."""
        rest = []
        while isinstance(node, ast.Attribute):
            rest.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return []
        below = "".join(f".{r}" for r in reversed(rest))
        return [m + below for m in self.meanings_of(node.id)]


def imported(node):
    """(name it binds, what that stands for) of an import statement; of the project's own, a name that starts with a dot."""
    if isinstance(node, ast.Import):
        return [(a.asname, a.name) if a.asname else (a.name.partition(".")[0], a.name.partition(".")[0]) for a in node.names]
    module = "." * node.level + (node.module or "")
    return [(a.asname or a.name, f"{module}.{a.name}") for a in node.names if a.name != "*"]
