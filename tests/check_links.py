"""Fails on a link to a page that is not there, and on a comment or page that cites a file that is not there.

Looks at Markdown pages (links, headings after `#`, files named in the text) and at comments of C++, Python, CMake and
make (files named there). Files of users that only serve as examples are in EXAMPLES. `python tests/check_links.py [root]`.
"""

import fnmatch
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)|(?:src|href|srcset)=\"([^\"]+)\"")
FENCE = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.M | re.S)
MADE = re.compile(r"^```\w* file=(\S+)", re.M)
SPAN = re.compile(r"`([^`\n]+)`")
# A path with an extension of ours. What follows may be a line number or a test's name.
CITED = re.compile(r"(?<![\w/.*$<{}~%@-])((?:\.\./)*(?:[\w-]+/)*[\w-]+\.(?:md|h|cpp|py|cmake|test|tasm|sh))(?![\w/*{])(?!\.\w)")
FAMILY = re.compile(r"^((?:[\w-]+/)*[\w-]*)(\.\*|_\*(?:\.\w+)?|\*\.\w+)$")  # `hoist.*`, `tile_jit_*`, `rows_*.cpp`
# Where a path may begin, besides the root and the folder of the file that cites it.
ROOTS = ("src", "python", "python/trine", "python/compat", "tests", "docs", "examples", "include")
# Names that stand for a user's file. Names in CamelCase are another project's: ours are snake_case.
EXAMPLES = {"FILE.py", "file.py", "gpu_baseline.py", "kernel.py", "matmul.tasm", "model.py", "my_kernel.py", "script.py", "train.py"}
GENERATED = {"op_ids.h", "op_names.cpp"}  # by the build, into its own folder
OTHERS = re.compile(r".*[a-z][A-Z]\w*\.\w+$|(?:.*/)?llama\.cpp$")
CODE = (".h", ".cpp", ".py", ".cmake", "CMakeLists.txt", "Makefile", ".sh")


def tracked(root: Path) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(name for name in listed if (root / name).exists())


def slug(heading: str) -> str:
    """As GitHub and MyST make it of a heading."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m[1] or "", heading).strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text))


def blank(match: re.Match) -> str:
    """Spaces in its place, so that places and lines stay."""
    return re.sub(r"[^\n]", " ", match[0])


def without_code(page: str) -> str:
    return SPAN.sub(blank, FENCE.sub(blank, page))


def cpp_comments(text: str) -> list[tuple[int, str]]:
    """(place, comment) of C++ text; strings, raw ones too, hold none."""
    pattern = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|(//[^\n]*|/\*.*?\*/)', re.S)
    return [(m.start(2), m[2]) for m in pattern.finditer(text) if m[2]]


def python_comments(text: str) -> list[tuple[int, str]]:
    """(place, comment or docstring) of Python text: strings that stand for themselves, and what follows #."""
    starts = [0]
    for line in text.splitlines(True):
        starts.append(starts[-1] + len(line))
    found, fresh = [], True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and fresh):
            found.append((starts[token.start[0] - 1] + token.start[1], token.string))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            fresh = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return found


def comments(name: str, text: str) -> list[tuple[int, str]]:
    if name.endswith((".h", ".cpp")):
        return cpp_comments(text)
    if name.endswith(".py"):
        return python_comments(text)
    return [(m.start(), m[0]) for m in re.finditer(r"(?m)(?:^|\s)#(?!!)[^\n]*", text)]


class Links:
    """What a repository holds, and whether a name means something in it."""

    def __init__(self, root: Path, files: list[str]):
        self.root, self.files = root, set(files)
        self.folders = {str(p) for name in files for p in Path(name).parents}
        self.names = {Path(name).name for name in files}
        self.headings: dict[str, set[str]] = {}

    def has(self, path: str) -> bool:
        path = path.rstrip("/")
        return path in self.files or path in self.folders

    def near(self, citing: str, path: str) -> str:
        """The path as named from the root; of a path that leaves the root, itself."""
        parts: list[str] = []
        for part in [*Path(citing).parent.parts, *path.split("/")]:
            if part == "..":
                if not parts:
                    return path
                parts.pop()
            elif part not in (".", ""):
                parts.append(part)
        return "/".join(parts) or "."

    def cites(self, citing: str, path: str) -> bool:
        """A bare name may lie anywhere; a path begins at the root, at one of ROOTS or where it is cited."""
        if path in EXAMPLES or Path(path).name in GENERATED or OTHERS.match(path):
            return True
        if "/" not in path:
            return path in self.names
        if path.startswith("../"):
            return self.has(self.near(citing, path))
        here = Path(citing).parent
        starts = ["", *ROOTS, *(str(p) for p in [here, *here.parents])]
        return any(self.has(f"{start}/{path}" if start not in ("", ".") else path) for start in starts)

    def family(self, citing: str, pattern: str) -> bool:
        here = str(Path(citing).parent)
        starts = [p for p in ("", "src", "python", "tests", here) if p != "."]
        wanted = [f"{p}/{pattern}" if p else pattern for p in starts] + [f"{here}/*/{pattern}"]
        return any(fnmatch.fnmatchcase(name, w) for w in wanted for name in self.files)

    def anchors(self, page: str) -> set[str]:
        if page not in self.headings:
            text = (self.root / page).read_text()
            lines = FENCE.sub("", text).splitlines()
            named = re.findall(r"^\(([\w-]+)\)=$", text, re.M)
            self.headings[page] = {slug(line.lstrip("#")) for line in lines if re.match(r"#+ ", line)} | set(named)
        return self.headings[page]

    def links_of(self, name: str, text: str) -> list[tuple[int, str]]:
        found = []
        for match in LINK.finditer(without_code(text)):
            target = match[1] or match[2]
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            at = self.near(name, path) if path else name
            if not self.has(at):
                found.append((match.start(), f"{target}: no such file"))
            elif anchor and at.endswith(".md") and anchor not in self.anchors(at):
                found.append((match.start(), f"{target}: {at} has no such heading"))
        return found

    def cited_in(self, name: str, text: str, start: int = 0) -> list[tuple[int, str]]:
        hits = [(start + m.start(), m[1]) for m in CITED.finditer(text)]
        return [(at, f"{path}: no such file") for at, path in hits if not self.cites(name, path)]

    def families_of(self, name: str, text: str) -> list[tuple[int, str]]:
        spans = [(m.start(), m[1]) for m in SPAN.finditer(FENCE.sub(blank, text))]
        return [(at, f"{said}: nothing of that name") for at, said in spans if FAMILY.match(said) and not self.family(name, said)]

    def broken(self, name: str) -> list[str]:
        text = (self.root / name).read_text()
        if name.endswith(".md"):
            made = set(MADE.findall(text))  # a page that is run writes these files itself
            plain = re.sub(r"\]\([^)]*\)", blank, FENCE.sub(blank, text))
            found = [hit for hit in self.cited_in(name, plain) if hit[1].split(":")[0] not in made] + self.links_of(name, text)
            if name.startswith("src/"):
                found += self.families_of(name, text)
        else:
            found = [hit for at, comment in comments(name, text) for hit in self.cited_in(name, comment, at)]
        return [f"{name}:{text.count(chr(10), 0, at) + 1}: {what}" for at, what in sorted(set(found))]


def broken_links(root: Path, files: list[str] | None = None) -> list[str]:
    files = tracked(root) if files is None else files
    links = Links(root, files)
    looked_at = [f for f in files if f.endswith((".md", *CODE))]
    return [line for name in looked_at for line in links.broken(name)]


if __name__ == "__main__":
    problems = broken_links(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(problems) or "links: every file that a page or a comment names is there")
    sys.exit(bool(problems))
