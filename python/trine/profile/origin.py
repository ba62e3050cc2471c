"""Where an instruction comes from: `at` of its row is a line of the user's file, or of the graph's text, which is kept with the
profile. For a graph of PyTorch's, what its emitter knew of each line (aten op, the model's line) is kept too."""

import re

_OP = re.compile(r"\"?(stablehlo|chlo|func|mhlo)\.(\w+)\"?|\b(custom_call)\b")


def of(profile, program, at) -> dict:
    """{source, line, framework_op, graph_op}: what is not known is empty."""
    file, _, line = at.rpartition(":")
    number = int(line) if line.isdigit() else 0
    row = profile.by_number.get(program) or {}
    if file == "program" and row.get("graph"):
        known = (row.get("graph_lines") or {}).get(str(number), {})
        return {"source": known.get("file", ""), "line": known.get("line", 0), "framework_op": known.get("op", "") or row["name"],
                "graph_op": graph_op(row["graph"], number), "at": at, "graph_line": number}  # fmt: skip
    scope, _, file = file.rpartition(": ")  # "layer 3/mlp: model.py", where the framework named what it traced
    return {"source": file, "line": number, "framework_op": scope or row.get("name", ""), "graph_op": "", "at": at, "graph_line": 0}


_texts = {}


def graph_op(text, line):
    """The op on a line of a graph's text: dot_general."""
    key = id(text)
    if key not in _texts:
        _texts.clear()
        _texts[key] = text, text.split("\n")
    lines = _texts[key][1]
    found = _OP.search(lines[line - 1]) if 0 < line <= len(lines) else None
    return (found.group(2) or found.group(3)) if found else ""
