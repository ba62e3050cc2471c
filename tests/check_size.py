"""Prints a table of sizes per folder, and fails on files past 800 lines and functions past 80.

Tables are exempt: the instruction rows in src/arch/insns. Generated files and data are not code.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

FILE_LIMIT, FUNCTION_LIMIT = 800, 80
TABLES = ("src/arch/insns/",)
NOT_A_FUNCTION = re.compile(r"^(namespace|struct|class|enum|union|extern|template|#|//)|=\s*\{|^\}")


def cpp_functions(lines: list[str]) -> list[tuple[int, int]]:
    """(first line, length) of each body at column 0; our format never indents inside a namespace."""
    spans, begin = [], 0
    for number, line in enumerate(lines, 1):
        if line.startswith("}"):
            if begin:
                spans.append((begin, number - begin + 1))
            begin = 0
        elif not begin and line[:1].strip() and line.endswith("{") and not NOT_A_FUNCTION.search(line):
            begin = number
    return spans


def python_functions(text: str) -> list[tuple[int, int]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(n.lineno, n.end_lineno - n.lineno + 1) for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)]


def offenders(name: str, text: str) -> list[str]:
    if name.startswith(TABLES):
        return []
    lines = text.splitlines()
    found = [f"{name}: {len(lines)} lines, the limit is {FILE_LIMIT}"] if len(lines) > FILE_LIMIT else []
    spans = python_functions(text) if name.endswith(".py") else cpp_functions(lines)
    found += [f"{name}:{at}: function of {n} lines, the limit is {FUNCTION_LIMIT}" for at, n in spans if n > FUNCTION_LIMIT]
    return found


def folder_of(name: str) -> str:
    parts = name.split("/")
    return "/".join(parts[:2] if len(parts) > 2 else parts[:-1]) or "."


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.cpp", "*.h", "*.py"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    sizes: dict[str, list[int]] = {}
    problems = []
    for name in sorted(filter(None, listed)):
        if not Path(name).exists():
            continue
        text = Path(name).read_text()
        sizes.setdefault(folder_of(name), []).append(len(text.splitlines()))
        problems += offenders(name, text)
    print(f"{'folder':<24}{'files':>6}{'lines':>8}{'longest':>9}")
    for folder, lengths in sorted(sizes.items()):
        print(f"{folder:<24}{len(lengths):>6}{sum(lengths):>8,}{max(lengths):>9}")
    everything = [n for lengths in sizes.values() for n in lengths]
    print(f"{'all':<24}{len(everything):>6}{sum(everything):>8,}{max(everything):>9}")
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
