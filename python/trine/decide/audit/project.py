"""The files of a project that can depend on CUDA, each with its class. Links are not followed, so there are no loops; what cannot be
read is listed with the reason, never left out silently.
"""

import dataclasses
import os
import re

SKIPPED_FOLDERS = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".tox", ".nox", ".eggs", ".mypy_cache", ".ruff_cache", ".pytest_cache",
                   ".ipynb_checkpoints", "site-packages"}  # fmt: skip
VENDORED = re.compile(r"(^|/)(third[_-]?party|3rd[_-]?party|vendor(ed)?|extern(al)?s?|submodules|cutlass|deps)/", re.I)
TESTS = re.compile(r"(^|/)(tests?|testing|unittests?|conftest\.py$)(/|$)|(^|/)(test_[^/]*|[^/]*_test)\.(py|cu|cpp|cc)$", re.I)

# class -> endings; names by pattern come first
NAMES = [
    (r"(?i)(.*[-_.])?(requirements?|constraints)([-_.].*)?\.(txt|in)$|.*requirements/[^/]*\.(txt|in)$", "requirements"),
    (r"(?i)(poetry|uv|pdm)\.lock$", "lock"),
    (r"(?i)pyproject\.toml$|Pipfile$", "toml"),
    (r"(?i)Dockerfile.*|.*\.dockerfile$|Containerfile.*", "docker"),
    (r"CMakeLists\.txt$", "cmake"),
    (r"(?i)(GNU)?Makefile.*", "shell"),
]
ENDINGS = {
    "python": ".py .pyw", "loose": ".pyx .pxd", "notebook": ".ipynb", "cuda": ".cu .cuh", "c": ".c .cc .cpp .cxx .h .hh .hpp .hxx .inl",
    "shell": ".sh .bash .zsh .slurm .sbatch .mk .pbs", "cmake": ".cmake", "config": ".yaml .yml .json .ini .cfg .conf .jsonnet .env .gin", "toml": ".toml",
}  # fmt: skip
CLASS_OF = {ending: kind for kind, endings in ENDINGS.items() for ending in endings.split()}
LIMITS = {"config": 1 << 20, "notebook": 64 << 20}  # bytes; data files are no configuration
LIMIT = 8 << 20


@dataclasses.dataclass(frozen=True)
class File:
    path: str
    name: str  # from the project's folder
    kind: str
    bytes: int

    @property
    def part(self):
        return "vendored" if VENDORED.search(self.name) else "tests" if TESTS.search(self.name) else "code"


def kind_of(name):
    base = os.path.basename(name)
    for pattern, kind in NAMES:
        if re.match(pattern, base) or ("requirements/" in pattern and re.match(pattern, name)):
            return kind
    return CLASS_OF.get(os.path.splitext(base)[1].lower())


def is_environment(path):
    return os.path.exists(os.path.join(path, "pyvenv.cfg")) or os.path.exists(os.path.join(path, "conda-meta"))


def files_of(root):
    """(files, skipped): `skipped` are (name, why)."""
    if not os.path.isdir(root):
        kind = kind_of(os.path.abspath(root)) or ("python" if starts_python(root) else None)
        size = os.path.getsize(root)
        return ([File(root, os.path.basename(root), kind or "requirements", size)], [])
    files, skipped, stack = [], [], [root]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError as e:
            skipped.append((os.path.relpath(folder, root), f"cannot be read: {e.strerror}"))
            continue
        for entry in entries:
            name = os.path.relpath(entry.path, root)
            try:
                size = entry.stat(follow_symlinks=False).st_size
            except OSError as e:  # of a folder that lists its names and lets nobody in
                skipped.append((name, f"cannot be read: {e.strerror}"))
                continue
            if entry.is_symlink():
                if kind_of(name) or entry.is_dir():
                    skipped.append((name, "a link: not followed"))
            elif entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED_FOLDERS and not entry.name.endswith((".egg-info", ".dist-info")) and not is_environment(entry.path):
                    stack.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                kind = kind_of(name) or ("python" if "." not in entry.name and starts_python(entry.path) else None)
                if kind:
                    files.append(File(entry.path, name, kind, size))
    return sorted(files, key=lambda f: f.name), skipped


def starts_python(path):
    try:
        with open(path, "rb") as f:
            return bool(re.match(rb"#!.*\bpython", f.read(64)))
    except OSError:
        return False


def text_of(file):
    """(text, why not)."""
    limit = LIMITS.get(file.kind, LIMIT)
    if file.bytes > limit:
        return None, f"{file.bytes / 1e6:.1f} MB; files up to {limit / 1e6:.0f} MB are read"
    try:
        with open(file.path, "rb") as f:
            data = f.read(limit + 1)
    except OSError as e:
        return None, f"cannot be read: {e.strerror}"
    if b"\0" in data[:8192]:
        if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            return None, "binary"
        return data.decode("utf-16", errors="replace"), None
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError:
        return data.decode("latin-1"), None


def is_writable(file, text):
    """Whether the text, written as UTF-8, is the file again: other encodings and line ends of their own are not patched."""
    with open(file.path, "rb") as f:
        return f.read() == text.encode() and "\r" not in text.replace("\r\n", "")


def own_names(files):
    """Top-level packages that are part of the project: folders with an __init__.py that lie in none."""
    folders = {os.path.dirname(f.name) for f in files if f.kind == "python" and os.path.basename(f.name) == "__init__.py"}
    tops = {os.path.basename(d) for d in folders if d and os.path.dirname(d) not in folders}
    return tops - {"torch", "jax", "tensorflow", "numba", "nvidia"}
