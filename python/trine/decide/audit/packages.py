"""Packages that a build script in Python asks for: strings of lists, such as install_requires and its extras."""

import ast
import re

from trine.decide.audit.rule import Finding
from trine.decide.audit.rules import TABLES

REQUIREMENT = re.compile(r"([A-Za-z][\w.-]*)(\[[^\]]*\])?\s*([<>=!~;@].*)?")


def findings(text, file, known):
    """Beside those `known` of the file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    seen, out, rows = {(f.line, f.kind) for f in known}, [], text.split("\n")
    for node in ast.walk(tree):
        for item in node.elts if isinstance(node, (ast.List, ast.Tuple)) else ():
            named = REQUIREMENT.fullmatch(item.value) if isinstance(item, ast.Constant) and isinstance(item.value, str) else None
            rule = TABLES.by_package(named[1]) if named else None
            if rule is not None and (item.lineno, rule.kind) not in seen:
                seen.add((item.lineno, rule.kind))
                out.append(Finding(file, item.lineno, item.col_offset + 1, rule, rows[item.lineno - 1].strip()[:200]))
    return out
