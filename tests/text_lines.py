"""The text-test grammar of docs/testing.md: a .test file becomes a list of Lines. No pytest, no running.

Every line is `verb arguments [expect ...] [~ regex]`, an optional indented input, an optional fenced expected
block and an optional `exit N`. Parsing never guesses: what it cannot read is a GrammarError with the line number.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

OPERAND = re.compile(r"([a-z][a-z0-9_]*)\[([0-9,\s]*)\]")
KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)=(.*)", re.S)
TOLERANCE = re.compile(r"([0-9.eE+-]+?)(ulp|%)?")
FENCE = re.compile(r"-{4,}")
OPENING, CLOSING = "([{", ")]}"


class GrammarError(Exception):
    pass


@dataclass(frozen=True)
class Operand:
    """f32[4,1000]: a dtype name and a shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Tolerance:
    value: float
    unit: str  # "" absolute, "ulp" or "%"


@dataclass
class Line:
    """One test. `args` holds Operands and bare words in order; `keys` the key=value pairs, values parsed."""

    verb: str
    text: str  # all after the verb, as written
    number: int  # 1-based, in the file
    title: str = ""  # the comment above its group
    tags: frozenset[str] = frozenset()
    args: list = field(default_factory=list)
    keys: dict = field(default_factory=dict)
    expect: list = field(default_factory=list)
    expect_keys: dict = field(default_factory=dict)
    tol: Tolerance | None = None
    error: str | None = None  # the regex after ~
    input: str = ""  # the indented lines
    expected: list[str] | None = None  # the fenced block
    block: tuple[int, int] = (0, 0)  # its lines [first, last), 0-based, for --update
    exit: int = 0

    @property
    def operands(self) -> list[Operand]:
        return [a for a in self.args if isinstance(a, Operand)]

    @property
    def words(self) -> list[str]:
        return [a for a in self.args if isinstance(a, str)]


def tokens(text: str) -> list[str]:
    """Split at spaces, but not inside quotes or brackets."""
    out, word, depth, quote = [], "", 0, ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in OPENING:
            depth += 1
        elif c in CLOSING:
            depth -= 1
        if c.isspace() and not quote and depth <= 0:
            if word:
                out.append(word)
            word = ""
        else:
            word += c
    if quote or depth > 0:
        raise GrammarError(f"unclosed {quote or 'bracket'} in `{text}`")
    return out + [word] if word else out


def value(text: str):
    """int, float, true/false, quoted text, Operand, [list]; anything else stays text."""
    if match := OPERAND.fullmatch(text):
        return Operand(match[1], tuple(int(n) for n in match[2].replace(",", " ").split()))
    if text[:1] == "[" and text[-1:] == "]":
        return [value(t) for t in tokens(text[1:-1].replace(",", " "))]
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    for number in (lambda t: int(t, 0), float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def sort_words(words: list[str]) -> tuple[list, dict]:
    args, keys = [], {}
    for word in words:
        if match := KEY.fullmatch(word):
            if match[1] in keys:
                raise GrammarError(f"`{match[1]}=` is given twice")
            keys[match[1]] = value(match[2])
        else:
            parsed = value(word)
            args.append(parsed if isinstance(parsed, (Operand, list)) else word)
    return args, keys


def tolerance(text: str) -> Tolerance:
    match = TOLERANCE.fullmatch(text)
    try:
        return Tolerance(float(match[1]), match[2] or "")
    except (TypeError, ValueError):
        raise GrammarError(f"tolerance `{text}` is not a number, Nulp or N%") from None


def parse_head(line: Line, plain: bool) -> None:
    """Fills args, keys, expect, tol and error from line.text. Plain verbs keep their text whole."""
    if plain:
        return
    text, tilde, pattern = line.text.partition("~ ")
    if tilde:
        line.error = pattern.strip()
        re.compile(line.error)
    if match := re.search(r"\btags:(.*)$", text):
        line.tags |= frozenset(match[1].split())
        text = text[: match.start()]
    words = tokens(text)
    if "expect" in words:
        at = words.index("expect")
        words, wanted = words[:at], words[at + 1 :]
        if "tol" in wanted:
            at = wanted.index("tol")
            line.tol = tolerance(" ".join(wanted[at + 1 : at + 2]))
            wanted = wanted[:at] + wanted[at + 2 :]
        line.expect, line.expect_keys = sort_words(wanted)
    line.args, line.keys = sort_words(words)


def parse(text: str, plain_verbs: frozenset[str] = frozenset()) -> list[Line]:
    """All tests of a file. `plain_verbs` take the rest of their line as it is (a shell command, say)."""
    rows = text.splitlines()
    found: list[Line] = []
    title, tags, at = "", frozenset(), 0
    while at < len(rows):
        row, at = rows[at], at + 1
        if not row.strip():
            title, tags = "", frozenset()
        elif row.startswith("#"):
            comment, _, tagged = row.lstrip("# ").partition("tags:")
            title, tags = comment.strip(), tags | frozenset(tagged.split())
        elif row[0].isspace() or FENCE.fullmatch(row) or row.startswith("exit "):
            raise GrammarError(f"line {at}: `{row.strip()}` belongs to no test")
        else:
            verb, _, rest = row.partition(" ")
            line = Line(verb, rest.strip(), at, title, tags)
            try:
                parse_head(line, verb in plain_verbs)
                at = take_blocks(line, rows, at)
            except (GrammarError, re.error) as problem:
                raise GrammarError(f"line {line.number}: {problem}") from None
            found.append(line)
    return found


def take_blocks(line: Line, rows: list[str], at: int) -> int:
    """The indented input, the fenced expected block and `exit N` that follow a test's first line."""
    while at < len(rows) and rows[at][:1] == " ":
        line.input += rows[at].removeprefix("  ") + "\n"
        at += 1
    if at < len(rows) and FENCE.fullmatch(rows[at]):
        fence = rows[at]
        end = next((i for i in range(at + 1, len(rows)) if rows[i] == fence), None)
        if end is None:
            raise GrammarError(f"block opened by {fence} is never closed")
        line.expected, line.block, at = rows[at + 1 : end], (at + 1, end), end + 1
    if at < len(rows) and (match := re.fullmatch(r"exit (\d+)", rows[at])):
        line.exit, at = int(match[1]), at + 1
    return at


def line_matches(want: str, got: str) -> bool:
    return bool(re.search(want[2:], got)) if want.startswith("~ ") else want.rstrip() == got.rstrip()


def block_matches(want: list[str], got: list[str]) -> bool:
    """Exact lines, `~ regex` lines, and `...` for any number of lines."""
    reached = {0}  # how many lines of `got` may be consumed so far
    for row in want:
        if row == "...":
            reached = set(range(min(reached), len(got) + 1)) if reached else set()
        else:
            reached = {i + 1 for i in reached if i < len(got) and line_matches(row, got[i])}
    return len(got) in reached


def replace_block(file: Path, lines: list[Line], line: Line, got: list[str]) -> None:
    """Rewrites a line's block in place; the blocks below it move along."""
    rows = file.read_text().splitlines()
    first, last = line.block
    file.write_text("\n".join(rows[:first] + got + rows[last:]) + "\n")
    line.expected, line.block = got, (first, first + len(got))
    moved = first + len(got) - last
    for other in lines:
        if other.number > line.number and other.expected is not None:
            other.block = (other.block[0] + moved, other.block[1] + moved)
