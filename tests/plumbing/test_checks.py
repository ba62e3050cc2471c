"""The repository's own checks catch what they are for."""

from pathlib import Path

import check_docs
import check_layers
import check_size


def tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_an_include_against_the_arrows_is_caught(tmp_path):
    root = tree(tmp_path, {"src/layers.txt": "base:\narch: base\nsim: base arch\n", "src/sim/a.h": '#include "arch/b.h"\n'})
    assert check_layers.broken_arrows(root) == []
    tree(root, {"src/arch/c.cpp": '// up\n#include "base/x.h"\n#include "sim/a.h"\n'})
    assert check_layers.broken_arrows(root) == ["src/arch/c.cpp:3: arch may not include sim (src/layers.txt)"]


def test_star_sees_everything_above_it_and_nobody_sees_tools(tmp_path):
    root = tree(tmp_path, {"src/layers.txt": "base:\nrun: base\ntools: *\n", "src/tools/main.cpp": '#include "run/a.h"\n'})
    assert check_layers.broken_arrows(root) == []
    tree(root, {"src/run/b.cpp": '#include "tools/c.h"\n'})
    assert len(check_layers.broken_arrows(root)) == 1


def test_unknown_folders_and_relative_includes_are_caught(tmp_path):
    root = tree(tmp_path, {"src/layers.txt": "base:\n", "src/utils/a.h": "", "src/base/b.h": '#include "c.h"\n'})
    found = check_layers.broken_arrows(root)
    assert any("utils is not in" in line for line in found)
    assert any("not written from src/" in line for line in found)


def test_long_files_and_functions_are_caught_but_tables_are_not():
    long_function = "int f() {\n" + "  g();\n" * 90 + "}\n"
    assert "function of 92 lines" in check_size.offenders("src/base/a.cpp", long_function)[0]
    assert check_size.offenders("src/base/a.cpp", "struct S {\n" + "  int a;\n" * 90 + "};\n") == []
    assert "900 lines" in check_size.offenders("src/base/a.cpp", "\n" * 900)[0]
    assert check_size.offenders("src/arch/insns/vector.cpp", "\n" * 900) == []
    assert len(check_size.offenders("a.py", "def f():\n" + "    g()\n" * 90)) == 1


def test_generated_pages_are_listed_with_their_commands():
    assert check_docs.pages("# note\ndocs/a.md: trine chips --x a:b\n") == {"docs/a.md": "trine chips --x a:b"}


def test_this_repository_keeps_its_arrows():
    assert check_layers.broken_arrows(Path(__file__).resolve().parent.parent.parent) == []
