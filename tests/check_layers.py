"""Holds every #include of src/ against src/layers.txt: which folder may see which.

Prints each include that breaks an arrow and exits 1. `python tests/check_layers.py [root]`.
"""

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def read_layers(path: Path) -> dict[str, set[str]]:
    """Folder -> the folders it may include, itself among them."""
    layers: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, below = line.split(":")
        seen = set(layers) if below.strip() == "*" else set(below.split())
        if unknown := seen - set(layers):
            raise SystemExit(f"{path}: {folder} names {', '.join(sorted(unknown))} before they are listed")
        layers[folder] = seen | {folder}
    return layers


def broken_arrows(root: Path) -> list[str]:
    src = root / "src"
    layers = read_layers(src / "layers.txt")
    problems = []
    for file in sorted([*src.rglob("*.h"), *src.rglob("*.cpp")]):
        where = file.relative_to(root)
        folder = file.relative_to(src).parts[0]
        if folder not in layers:
            problems.append(f"{where}: folder {folder} is not in src/layers.txt (a new one needs a decision note)")
            continue
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            target = match[1].split("/")[0]
            if target not in layers:
                problems.append(f'{where}:{line}: "{match[1]}" is not written from src/')
            elif target not in layers[folder]:
                problems.append(f"{where}:{line}: {folder} may not include {target} (src/layers.txt)")
    return problems


if __name__ == "__main__":
    found = broken_arrows(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) or "layers: every arrow holds")
    sys.exit(bool(found))
