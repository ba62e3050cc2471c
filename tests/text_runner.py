"""Collects tests/**/*.test for pytest and runs each Line through its suite's handler.

The suite is the folder; its handler.py has one function per verb: `verb(line, context)`, returning the text to
compare, (text, exit code), or None when it checked everything itself. docs/testing.md is the page for people.
"""

import difflib
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from text_lines import GrammarError, Line, block_matches, parse, replace_block

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Context:
    """What a handler may use: the command under test, a fresh folder, and which variant of the line this is."""

    trine: Path
    folder: Path
    variant: str = ""
    root: Path = ROOT
    file: Path = ROOT  # the .test file


class Mismatch(Exception):
    pass


def load_handler(file: Path):
    """The handler.py nearest above a .test file."""
    for folder in file.parents:
        path = folder / "handler.py"
        if path.exists():
            name = "text_handler_" + "_".join(folder.relative_to(ROOT).parts)
            if name not in sys.modules:
                spec = importlib.util.spec_from_file_location(name, path)
                sys.modules[name] = module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
            return sys.modules[name]
        if folder == ROOT / "tests":
            break
    raise GrammarError(f"{file.relative_to(ROOT)}: no handler.py in its folder or above")


class TextFile(pytest.File):
    def collect(self):
        handler = load_handler(self.path)
        variants = getattr(handler, "variants", lambda line: [""])
        self.lines = parse(self.path.read_text(), frozenset(getattr(handler, "PLAIN", ())))
        for line in self.lines:
            run = getattr(handler, line.verb, None)
            if run is None:
                raise GrammarError(f"{self.path.name}:{line.number}: unknown verb `{line.verb}`")
            for variant in variants(line):
                name = f"{line.number}: {line.verb} {line.text[:60]}" + (f" [{variant}]" if variant else "")
                yield TextItem.from_parent(self, name=name, line=line, run=run, variant=variant)


class TextItem(pytest.Item):
    def __init__(self, *, line: Line, run, variant: str, **rest):
        super().__init__(**rest)
        self.line, self.run, self.variant = line, run, variant
        if "slow" in line.tags:
            self.add_marker(pytest.mark.slow)

    def runtest(self):
        folder = self.config._tmp_path_factory.mktemp("text")
        result = self.run(self.line, Context(self.config.trine, folder, self.variant, file=self.path))
        text, code = result if isinstance(result, tuple) else (result, self.line.exit)
        if self.line.error is not None:
            check_error(self.line.error, text)
        if self.line.expected is not None:
            self.check_block((text or "").splitlines())
        if code != self.line.exit:
            raise Mismatch(f"exit code {code}, expected {self.line.exit}; output:\n{text}")

    def check_block(self, got: list[str]):
        want = self.line.expected
        if block_matches(want, got):
            return
        patterns = any(row == "..." or row.startswith("~ ") for row in want)
        if self.config.getoption("update") and not patterns:
            replace_block(self.path, self.parent.lines, self.line, got)
            return
        raise Mismatch("\n".join(difflib.unified_diff(want, got, "expected", "got", lineterm="", n=2)))

    def repr_failure(self, excinfo):
        title = f"   ({self.line.title})" if self.line.title else ""
        where = f"{self.path.relative_to(ROOT)}:{self.line.number}: {self.line.verb} {self.line.text}{title}"
        if excinfo.errisinstance(Mismatch):
            return f"{where}\n{excinfo.value}"
        return f"{where}\n{super().repr_failure(excinfo)}"

    def reportinfo(self):
        return self.path, self.line.number - 1, self.name


def check_error(pattern: str, text: str | None):
    if text is None:
        raise Mismatch(f"no error, expected one matching /{pattern}/")
    if not re.search(pattern, text):
        raise Mismatch(f"error does not match /{pattern}/:\n{text}")
