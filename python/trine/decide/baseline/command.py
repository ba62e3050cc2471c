"""`trine baseline`: writes the file that a user copies to the GPU machine.

The modules of this folder are its parts. Joined they import nothing but the standard library and PyTorch or JAX: imports
of each other go away, since all names are in one file then.
"""

import ast
from pathlib import Path

from trine.command import OK, note

PARTS = ("rows", "models", "work", "measure", "meter", "script")


def split(text):
    """(docstring, lines of plain imports, the rest) of a module."""
    tree, lines = ast.parse(text), text.split("\n")
    imports, dropped = [], set(range(tree.body[0].lineno, tree.body[0].end_lineno + 1))
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            dropped |= set(range(node.lineno, node.end_lineno + 1))
            if not (isinstance(node, ast.ImportFrom) and node.module.startswith("trine.")):
                imports.append(ast.unparse(node))
    rest = [line for number, line in enumerate(lines, 1) if number not in dropped]
    return ast.get_docstring(tree), imports, "\n".join(rest).strip("\n")


def joined():
    """The file's text."""
    parts = [split((Path(__file__).parent / f"{name}.py").read_text()) for name in PARTS]
    about = parts[-1][0]
    imports = sorted({line for _, lines, _ in parts for line in lines})
    bodies = [f"# ---- {doc.splitlines()[0]}\n\n{body}" for doc, _, body in parts[:-1]] + [parts[-1][2]]
    return f'#!/usr/bin/env python3\n"""{about}\n"""\n\n' + "\n".join(imports) + "\n\n" + "\n\n\n".join(bodies) + "\n"


def run(asked):
    path = Path(asked.output)
    path.write_text(joined())
    path.chmod(0o755)
    note(f"wrote {path}: copy it to the GPU machine, which needs PyTorch (or JAX) and nothing else")
    print(f"python3 {path.name} --out baseline.json")
    return OK
