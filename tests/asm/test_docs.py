"""The examples of docs/assembly.md are programs that pass."""

import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/assembly.md"


def test_example_passes(trine, tmp_path):
    examples = re.findall(r"```\n(program.*?)```", PAGE.read_text(), re.S)
    assert examples
    for text in examples:
        out = tmp_path / "out.tprog"
        subprocess.run([trine, "asm", "-", "-o", out], input=text, text=True, check=True)
        printed = subprocess.run([trine, "disasm", out], capture_output=True, text=True, check=True).stdout
        again = subprocess.run([trine, "disasm", "-"], input=printed, capture_output=True, text=True, check=True).stdout
        assert again == printed
