"""Prints docs/commands.md: the `trine` command and each subcommand, as their own --help says it."""

import re
import subprocess

HEAD = """# Commands

Written by `docs/site/commands.py` from the commands' own `--help`.

`trine` is one command with subcommands. Reports go to stdout, everything else to stderr. Every subcommand that reports has
`--json`. Exit codes: 0 ok · 1 a check failed · 2 wrong arguments · 3 input that cannot be used · 4 out of a virtual device's
memory · 5 something outside failed · 130 interrupted. [Settings](settings.md) lists the environment variables.
"""


def said(*arguments: str) -> str:
    return subprocess.run(["trine", *arguments], capture_output=True, text=True, check=True).stdout.rstrip()


def names(text: str) -> list[tuple[str, str]]:
    """(name, summary) of the list that `trine --help` prints: lines indented by two spaces."""
    return re.findall(r"^  ([a-z][\w-]*) {2,}(\S.*)$", text, re.M)


def main():
    found = names(said("--help"))
    if not found:
        raise SystemExit("trine --help lists no commands")
    print(HEAD)
    print("| command | |\n|---|---|")
    for name, summary in found:
        print(f"| [{name}](#trine-{name}) | {summary.replace('|', chr(92) + '|')} |")
    for name, _ in found:
        print(f"\n## trine {name}\n\n```text\n{said(name, '--help')}\n```")


if __name__ == "__main__":
    main()
