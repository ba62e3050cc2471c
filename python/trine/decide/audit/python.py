"""Reads a Python file by its syntax tree: which rules hold where. Nothing of it is run.

Strings count where they are values; docstrings and other bare strings do not. A file that does not parse (Python 2, a merge
conflict) is read by loose.py instead.
"""

import ast
import warnings

from trine.decide.audit import fix, loose
from trine.decide.audit.names import Scope, imported
from trine.decide.audit.rule import Finding
from trine.decide.audit.rules import TABLES, may_hold

PROBES = ("find_spec", "import_module", "__import__", "is_package_available", "_is_package_available", "is_module_available",
          "optional_import", "importorskip", "RequirementCache", "module_available", "package_available", "try_import", "lazy_load")  # fmt: skip

KERNELS = ("triton-kernel", "numba-cuda", "cute-kernel", "raw-module")


def findings(text, file, own=()):
    """The findings of a Python file, in order. `own`: names of the project's own packages, which are no dependence."""
    if not may_hold(text):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's escapes and comparisons
            tree = ast.parse(text)
        reader = Reader(text, file, own)
        reader.scope = Scope(tree)
        reader.statements(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return loose.findings(text, file, own)
    found = sorted(reader.found.values(), key=lambda f: (f.line, f.column))
    amp = [f for f in found if f.kind == "amp"]
    if not all(f.edits for f in amp):  # an import that is patched takes all its uses with it
        for f in amp:
            f.edits = ()
    return found


def is_shown_by_call(rule, meaning):
    """Whether only the arguments of a call say that CUDA is meant: torch.compile without a backend, a scaler without a device."""
    return rule.kind == "torch-compile" or meaning.startswith("torch.amp.")


class Reader:
    def __init__(self, text, file, own):
        self.lines = text.split("\n")  # as ast counts them
        self.data = [line.encode() + b"\n" for line in self.lines]
        self.file, self.own = file, own
        self.scope, self.guards = None, 0
        self.found = {}  # (line, kind) -> Finding: two of a kind in a line are one place with two edits

    # what is found

    def add(self, rule, node, edits=()):
        line = node.lineno
        known = self.found.get((line, rule.kind))
        if known is not None:
            known.edits += tuple(e for e in edits if e not in known.edits)
            return
        text = self.lines[line - 1].strip()[:200] if line <= len(self.lines) else ""
        self.found[line, rule.kind] = Finding(self.file, line, node.col_offset + 1, rule, text, self.guards > 0, edits=tuple(edits))

    def rule_of(self, meanings):
        for meaning in meanings:
            if meaning.startswith(".") or meaning.partition(".")[0] in self.own:
                continue
            rule = TABLES.by_name(meaning)
            if rule is not None:
                return rule, meaning
        return None, None

    # statements

    def statements(self, body):
        for node in body:
            self.visit(node)

    def visit(self, node):
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is not None:
            method(node)
        else:
            self.children(node)

    def children(self, node):
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def visit_Expr(self, node):  # noqa: N802 - ast's names
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.visit(node.value)

    def visit_Import(self, node):  # noqa: N802
        for alias in node.names:
            rule, meaning = self.rule_of([alias.name])
            if rule is not None:
                self.add(rule, alias, fix.import_edits(self, rule, node, alias, meaning))

    def visit_ImportFrom(self, node):  # noqa: N802
        for alias, (_, meaning) in zip([a for a in node.names if a.name != "*"], imported(node), strict=True):
            rule, meaning = self.rule_of([meaning])
            if rule is not None and not is_shown_by_call(rule, meaning):
                self.add(rule, alias, fix.import_edits(self, rule, node, alias, meaning))
        if any(a.name == "*" for a in node.names) and node.module and not node.level:
            rule, _ = self.rule_of([node.module])
            if rule is not None:
                self.add(rule, node)

    def _inside(self, node, body):
        self.scope = Scope(node, self.scope)
        self.statements(body)
        self.scope = self.scope.outer

    def visit_FunctionDef(self, node):  # noqa: N802
        kernels = [d for d in node.decorator_list if getattr(self._decorating(d), "kind", "") in KERNELS]
        for decorator in kernels[-1:] or node.decorator_list:
            self.decorator(decorator)
        if kernels:
            return  # the kernel is one place: its tuning and its body are no others
        for part in [node.args, node.returns]:
            if part is not None:
                self.visit(part)
        self._inside(node, node.body)

    def _decorating(self, node):
        return self.rule_of(self.scope.resolve(node.func if isinstance(node, ast.Call) else node))[0]

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):  # noqa: N802
        self.visit(node.args)
        self._inside(node, [node.body])

    def visit_ClassDef(self, node):  # noqa: N802
        for decorator in node.decorator_list:
            self.decorator(decorator)
        for part in [*node.bases, *node.keywords]:
            self.visit(part)
        self.statements(node.body)  # its names are not those of its methods

    def decorator(self, node):
        rule, meaning = self.rule_of(self.scope.resolve(node)) if isinstance(node, (ast.Name, ast.Attribute)) else (None, None)
        if rule is not None:
            self.add(rule, node, fix.decorator_edits(self, rule, node, meaning))
        else:
            self.visit(node)

    # guards

    def visit_If(self, node):  # noqa: N802
        self.visit(node.test)
        guarded = self.is_guard(node.test)
        negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        self.guards += guarded and not negated
        self.statements(node.body)
        self.guards -= guarded and not negated
        self.guards += guarded and negated
        self.statements(node.orelse)
        self.guards -= guarded and negated

    def visit_Try(self, node):  # noqa: N802
        caught = [n for h in node.handlers for n in ([h.type] if not isinstance(h.type, ast.Tuple) else h.type.elts)]
        guarded = any(n is None or getattr(n, "id", "") in ("ImportError", "ModuleNotFoundError", "Exception") for n in caught)
        self.guards += guarded
        self.statements(node.body)
        self.guards -= guarded
        for handler in node.handlers:
            self.statements(handler.body)
        self.statements([*node.orelse, *node.finalbody])

    visit_TryStar = visit_Try

    def is_guard(self, test):
        """Whether a condition asks if there is CUDA, or a package."""
        for n in ast.walk(test):
            name = n.attr if isinstance(n, ast.Attribute) else n.id if isinstance(n, ast.Name) else ""
            if name in ("is_cuda", "find_spec") or name.endswith(("_available", "_AVAILABLE", "is_available")) or name.lower().startswith(("has_", "use_cuda")):
                return True
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.startswith("cuda"):
                return True
        return False

    # expressions

    def visit_Call(self, node):  # noqa: N802
        meanings = self.scope.resolve(node.func)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        self.called(node, meanings, name)
        rule, meaning = self.rule_of(meanings)
        if rule is not None and fix.is_left_to_cuda(rule, node, meaning):
            self.add(rule, node.func, fix.call_edits(self, rule, node, meaning))
        elif rule is None and name in TABLES.methods and isinstance(node.func, ast.Attribute):
            rule, is_called = TABLES.methods[name]
            if is_called:
                where = ast.copy_location(ast.Name(id=""), node.func)
                where.lineno, where.col_offset = node.func.end_lineno, max(0, node.func.end_col_offset - len(name))
                self.add(rule, where, fix.method_edits(self, rule, node))
                rule = None
        elif rule is None and not meanings and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            unknown = TABLES.by_call(node.func.value.id, name)
            if unknown is not None:
                self.add(unknown, node.func)
        if not isinstance(node.func, ast.Name) and rule is None:
            self.visit(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
        for part in [*node.args, *node.keywords]:
            self.visit(part)

    def called(self, node, meanings, name):
        """What its arguments say: a package looked for by name, a platform, a keyword."""
        strings = [a.value for a in [*node.args, *[k.value for k in node.keywords]] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if name in PROBES and strings:
            rule, _ = self.rule_of(strings[:1])
            if rule is not None:
                self.guards += 1
                self.add(rule, node)
                self.guards -= 1
        if any(s.lower() in ("gpu", "cuda") for s in strings):
            rule, meaning = self.rule_of([f"{m}(gpu)" for m in meanings])
            if rule is not None and meaning.endswith("(gpu)") and meaning in TABLES.names:
                self.add(rule, node, fix.platform_edits(self, rule, node))
        full = meanings[0] if meanings else name
        for keyword in node.keywords:
            for value, of, rule in TABLES.keywords.get(keyword.arg, ()):
                written = ast.unparse(keyword.value) if not isinstance(keyword.value, ast.Constant) else repr(keyword.value.value)
                if value.fullmatch(written) and of.search(full) and written not in ("0", "None", "False"):
                    self.add(rule, keyword, fix.keyword_edits(self, rule, keyword))

    def visit_Attribute(self, node):  # noqa: N802
        meanings = self.scope.resolve(node)
        rule, meaning = self.rule_of(meanings)
        if rule is not None:
            if not is_shown_by_call(rule, meaning):
                self.add(rule, node, fix.name_edits(self, rule, node, meaning))
            return
        if node.attr in TABLES.methods and not TABLES.methods[node.attr][1]:
            self.add(TABLES.methods[node.attr][0], node, fix.method_edits(self, TABLES.methods[node.attr][0], node))
        self.visit(node.value)

    def visit_Name(self, node):  # noqa: N802
        if isinstance(node.ctx, ast.Load):
            rule, meaning = self.rule_of([m for m in self.scope.meanings_of(node.id) if "." in m or m != node.id or m in TABLES.below])
            if rule is not None and not is_shown_by_call(rule, meaning):
                self.add(rule, node, fix.name_edits(self, rule, node, meaning))

    def visit_Constant(self, node):  # noqa: N802
        if isinstance(node.value, str) and len(node.value) < 300:
            rule = TABLES.by_string(node.value)
            if rule is not None:
                self.add(rule, node, fix.string_edits(self, rule, node))

    def visit_JoinedStr(self, node):  # noqa: N802
        text = "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
        rule = TABLES.by_string(text) if len(text) < 300 else None
        if rule is not None:
            self.add(rule, node, fix.string_edits(self, rule, node))
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self.visit(value.value)
