"""The .test collector, run as pytest on small suites of its own: what must fail does fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture
def suite(tmp_path):
    """A tree with our runner and one suite `s`; run(text, *options) gives pytest's exit code and output."""
    tests = tmp_path / "tests"
    (tests / "s").mkdir(parents=True)
    for name in ("conftest.py", "text_runner.py", "text_lines.py"):
        shutil.copy(TESTS / name, tests)
    (tests / "s/handler.py").write_text(
        "PLAIN = {'sh'}\n"
        "def case(line, context): assert line.keys['a'] == 1\n"
        "def error(line, context): return 'axis 3 is wrong' if line.keys['a'] == 3 else None\n"
        "def sh(line, context): return line.text, 0\n"
        "def each(line, context): assert context.variant != line.words[0]\n"
        "def variants(line): return ['v2', 'v3'] if line.verb == 'each' else ['']\n"
    )

    def run(text, *options):
        (tests / "s/a.test").write_text(text)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options, str(tests)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout, (tests / "s/a.test").read_text()

    return run


def test_passing_and_failing_lines(suite):
    code, out, _ = suite("case a=1\nerror a=3 ~ axis \\d\nsh hello\n----\nhello\n----\n")
    assert code == 0 and "3 passed" in out
    code, out, _ = suite("# why  tags: x\ncase a=2\nerror a=1 ~ axis\nerror a=3 ~ other\nsh hello\n----\nbye\n----\nsh x\nexit 3\n")
    assert code == 1 and "5 failed" in out
    for message in ("a.test:2: case a=2   (why)", "no error, expected", "does not match", "+hello", "exit code 0, expected 3"):
        assert message in out


def test_variants_are_separate_items(suite):
    code, out, _ = suite("each v3\n")
    assert code == 1 and "1 failed, 1 passed" in out and "each v3 [v3]" in out


def test_slow_lines_are_marked(suite):
    assert "1 passed, 1 deselected" in suite("case a=1 tags: slow\ncase a=1\n", "-m", "not slow")[1]


def test_unknown_verbs_and_bad_grammar_fail(suite):
    assert suite("frob a=1\n")[0] != 0
    assert suite("case [\n")[0] != 0


def test_update_accepts_what_came_out_but_not_patterns(suite):
    code, _, text = suite("sh hello\n----\nbye\n----\n", "--update")
    assert code == 0 and text == "sh hello\n----\nhello\n----\n"
    assert suite("sh hello\n----\n~ ^bye\n----\n", "--update")[0] == 1
