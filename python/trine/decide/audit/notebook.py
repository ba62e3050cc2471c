"""Notebooks: the code cells as Python, lines that start with ! or % as shell. Lines are those of the .ipynb file, so are patches."""

import json

from trine.decide.audit import lines, python


def findings(text, file, own=()):
    """ValueError where the file is no notebook."""
    try:
        cells = json.loads(text).get("cells", [])
    except (ValueError, RecursionError, AttributeError):
        raise ValueError("no notebook: found text that is not its JSON") from None
    out, at = [], 0
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        rows = source if isinstance(source, list) else source.splitlines(keepends=True)
        code = "".join(rows)
        where, at = locate(text, rows if isinstance(source, list) else [source], at)
        shell = [line.lstrip() if line.lstrip().startswith(("!", "%")) else "" for line in code.splitlines()]
        plain = "\n".join("pass" if s and not line[:1].isspace() else "" if s else line for s, line in zip(shell, code.splitlines()))
        found = python.findings(plain, file, own) + lines.findings("\n".join(s.lstrip("!%") for s in shell), file, "shell")
        for f in found:
            f.edits = tuple(moved(e, rows, where) for e in f.edits) if isinstance(source, list) else ()
            f.edits = () if None in f.edits else f.edits
            f.line = where[min(f.line, len(where)) - 1][0] if where else 1
            out.append(f)
    return out


def locate(text, rows, at):
    """(line, byte in it) in the file of each row, found in order, and where the search ended."""
    where = []
    for row in rows:
        for written in (json.dumps(row), json.dumps(row, ensure_ascii=False)):
            found = text.find(written, at)
            if found >= 0:
                at = found + len(written)
                begin = text.rfind("\n", 0, found) + 1
                where.append((text.count("\n", 0, found) + 1, len(text[begin : found + 1].encode())))
                break
        else:
            where.append((text.count("\n", 0, at) + 1, None))
    return where, at


def moved(edit, rows, where):
    """An edit of a cell as one of the file; None where the row is written in another form."""
    (first, a), (last, b), new = edit
    if first != last or first > len(rows) or where[first - 1][1] is None:
        return None
    row = rows[first - 1].encode()
    line, begin = where[first - 1]

    def escaped(n):
        return len(json.dumps(row[:n].decode(), ensure_ascii=False).encode()) - 2

    if json.dumps(rows[first - 1]) != json.dumps(rows[first - 1], ensure_ascii=False):
        return None
    return (line, begin + escaped(a)), (line, begin + escaped(b)), json.dumps(new)[1:-1]
