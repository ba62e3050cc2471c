"""Fails on retired words in names: identifiers of C++ and Python and names of files, split at `_` and capitals.

The list is docs/words.md, its column "retired in names". What may keep such a word is in ALLOWED, each with its reason.
Strings and comments are not names. Of Python the package and the benchmarks are looked at: tests in Python name their
functions with sentences. `python tests/check_words.py [root]`.
"""

import fnmatch
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

# (whole name, files, why)
ALLOWED = [
    (r"\w*in_place\w*", "*", "the field's own word"),
    (r"\w*round_trip\w*", "*", "the field's own word"),
    (r"Place|places?_?|place_of|placement", "*/comm/*", "where a rank sits: the one thing the word names"),
    (r"Place|places?_?", "src/sim/*", "comm::Place"),
    (r"Place|places?_?", "src/run/*", "comm::Place"),
    (r"places", "tests/run/collectives.cpp", "comm::Place"),
    (r"Place|place_of", "src/tools/commands/nccom_test.cpp", "comm::Place"),
    (r"host_placed|_trine_kept|Kept", "*.py", "names that Python code and tensors hold"),
    (r"(?i)\w*places?", "*.py", "a position in a sequence or an image, as users of models say"),
    (r"placed_by_scheduler", "python/trine/nki/old/*", "looked up by its name"),
    (r"trips", "python/trine/nki/registers.py", "an argument of _core.Trace.loop"),
    (r"num_kept_ckpts", "python/compat/*", "an argument's name, which scripts pass"),
    (r"\w*turns?\w*", "python/trine/serve/*", "a turn of a conversation: the field's own word"),
    (r"kept", "python/trine/estimate/training.py", "an argument's name, which its program holds"),
]
LOOKED_AT = {".cpp": ("src/", "tests/", "bench/"), ".h": ("src/", "tests/", "bench/"), ".py": ("python/", "bench/")}
IDENTIFIER = re.compile(
    r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/|#\s*include[^\n]*'
    r"|\b\d[\w.']*|(?P<name>[A-Za-z_]\w*)",
    re.S,
)


def retired(page: str) -> dict[str, str]:
    """Retired word -> what is said instead, of the tables of docs/words.md."""
    out, column = {}, None
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "retired in names" in cells:
            column = cells.index("retired in names")
        elif not line.startswith("|"):
            column = None
        elif column is not None and len(cells) > column and not set(cells[column]) <= set("-–: "):
            for word in re.split(r"[\s,]+", cells[column]):
                out[word] = cells[0].replace("*", "")
    return out


def parts(name: str) -> list[str]:
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [p.lower() for p in re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).split("_") if p]


def cpp_names(text: str) -> list[tuple[int, str]]:
    found, line, at = [], 1, 0
    for m in IDENTIFIER.finditer(text):
        line, at = line + text.count("\n", at, m.start()), m.start()
        if m["name"]:
            found.append((line, m["name"]))
    return found


def python_names(text: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(t.start[0], t.string) for t in tokens if t.type == tokenize.NAME]


def allowed(file: str, name: str) -> bool:
    return any(re.fullmatch(pattern, name) and fnmatch.fnmatch(file, files) for pattern, files, _ in ALLOWED)


def offenders(file: str, text: str, words: dict[str, str]) -> list[str]:
    names = [(1, part) for part in Path(file).with_suffix("").parts]
    names += python_names(text) if file.endswith(".py") else cpp_names(text)
    found: dict[str, str] = {}
    for line, name in names:
        for word in parts(name):
            if word in words and not allowed(file, name):
                found.setdefault(name, f'{file}:{line}: {name}: "{word}" is retired; say {words[word]} (docs/words.md)')
    return list(found.values())


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    words = retired((root / "docs/words.md").read_text())
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    found = []
    for file in sorted(listed.stdout.splitlines()):
        if file.startswith(LOOKED_AT.get(Path(file).suffix, ())) and (root / file).is_file():
            found += offenders(file, (root / file).read_text(), words)
    for line in found:
        print(line)
    return int(bool(found) or not words)


if __name__ == "__main__":
    sys.exit(main())
