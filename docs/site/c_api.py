"""Prints docs/c_api.md from include/trine.h: each group of declarations below the comment that opens it."""

import re
from pathlib import Path

HEADER = Path(__file__).resolve().parent.parent.parent / "include/trine.h"
HEAD = """# C API

Written by `docs/site/c_api.py` from [`include/trine.h`](../include/trine.h). [Trine from C](c.md) has an example.
"""
# A group's title by how its first function, or the type it defines, begins.
TITLES = {
    "trine_version": "Version and errors",
    "trine_code": "Error codes",
    "trine_type": "Types",
    "trine_machine": "Machines",
    "trine_compile": "Programs",
    "trine_tensor": "Tensors",
    "trine_run": "Running",
}


def comment(text: str) -> str:
    """A comment's words, without its stars; variables between backticks stay so."""
    lines = (re.sub(r"^\s*\*? ?", "", line) for line in re.sub(r"^/\*|\*/$", "", text.strip()).splitlines())
    return "\n".join(line.rstrip() for line in lines).strip()


def groups(text: str) -> list[tuple[str, str]]:
    """(comment, code) of each block between blank lines; a block may have no comment of its own."""
    body = re.search(r'extern "C" \{\n#endif\n(.*?)#ifdef __cplusplus', text, re.S)[1]
    found = []
    for block in re.split(r"\n\s*\n", body.strip()):
        opening = re.match(r"(/\*.*?\*/)\s*\n", block, re.S)
        found.append((comment(opening[1]), block[opening.end() :]) if opening else ("", block))
    return found


def title(code: str) -> str:
    if code.startswith("typedef struct trine_"):
        return "Objects"
    first = re.search(r"\}\s*(trine_\w+);|\b(trine_\w+)\(", code)
    return next(TITLES[key] for key in TITLES if (first[1] or first[2]).startswith(key))


def main():
    text = HEADER.read_text()
    print(HEAD)
    print(comment(re.match(r"/\*.*?\*/", text, re.S)[0]))
    for says, code in groups(text):
        print(f"\n## {title(code)}\n")
        if says:
            print(f"{says}\n")
        print(f"```c\n{code.rstrip()}\n```")


if __name__ == "__main__":
    main()
