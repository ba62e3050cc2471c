"""The repository's own checks catch what they are for."""

import subprocess
from pathlib import Path

import check_commits
import check_docs
import check_layers
import check_links
import check_site
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


def broken_links(root):
    return check_links.broken_links(root, sorted(str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()))


def test_a_link_to_what_is_not_there_is_caught(tmp_path):
    page = "# Page one\n[a](docs/b.md#two) [b](docs) [c](#page-one) ![d](e.svg) [web](https://x.org/y.md) `[no](link)`\n"
    root = tree(tmp_path, {"a.md": page, "docs/b.md": "# One\n\n## Two\n[up](../a.md)\n", "e.svg": ""})
    assert broken_links(root) == []
    tree(root, {"docs/c.md": "\n[up](../gone.md) [b](b.md#three) <img src=\"no.svg\">\n"})
    assert broken_links(root) == [
        "docs/c.md:2: ../gone.md: no such file",
        "docs/c.md:2: b.md#three: docs/b.md has no such heading",
        "docs/c.md:2: no.svg: no such file",
    ]


def test_a_comment_that_cites_what_is_not_there_is_caught(tmp_path):
    here = {"src/ir/text.h": '// See docs/graph.md, ir/type.h, type.h and tests/t.py::test_x.\nauto s = "ir/gone.h";  // VhloOps.cpp\n',
            "src/ir/type.h": "/* as\n * text.h */\n", "docs/graph.md": "`ir/type.h`\n", "tests/t.py": 'X = "gone.py"  # t.py\n'}  # fmt: skip
    root = tree(tmp_path, here)
    assert broken_links(root) == []
    tree(root, {"docs/graph.md": "`ir/gone.h` and [a](../src/ir/text.h)\n", "src/ir/type.h": "/* as\n * texts.h */\n",
                "tests/t.py": '"""See docs/no.md."""\n\n\ndef f():\n    """gone.h"""\n    return "no.h"  # no.py\n'})  # fmt: skip
    assert broken_links(root) == [
        "docs/graph.md:1: ir/gone.h: no such file",
        "src/ir/type.h:2: texts.h: no such file",
        "tests/t.py:1: docs/no.md: no such file",
        "tests/t.py:5: gone.h: no such file",
        "tests/t.py:6: no.py: no such file",
    ]


def test_a_room_that_lists_files_it_does_not_have_is_caught(tmp_path):
    root = tree(tmp_path, {"src/ir/README.md": "- `type.*`, `text_*`, `inner/a.*`\n", "src/ir/type.h": "", "src/ir/text_read.cpp": "", "src/ir/inner/a.h": ""})
    assert broken_links(root) == []
    tree(root, {"src/ir/README.md": "- `types.*`\n"})
    assert broken_links(root) == ["src/ir/README.md:1: types.*: nothing of that name"]


def test_a_page_that_fetches_from_elsewhere_is_caught(tmp_path):
    page = '<link rel="canonical" href="https://a.org/"><script src="x.js"></script><a href="https://b.org">b</a><img src="data:,">'
    root = tree(tmp_path, {"docs/a.html": page, "x.css": "a { color: red }", "searchindex.js": 'Search.setIndex({"docnames":["docs/a"]})'})
    assert check_site.remote_assets(root) == [] and check_site.missing_from_search(root) == []
    tree(root, {"docs/b.html": '<script src="https://cdn.org/y.js"></script><img src="//c.org/z.png">', "x.css": "@import 'https://d.org/f.css'; a { b: url(//e.org/g.woff) }"})
    found = check_site.remote_assets(root)
    assert [line.split(" ")[-1] for line in found] == ["https://cdn.org/y.js", "//c.org/z.png", "https://d.org/f.css", "//e.org/g.woff"]
    assert check_site.missing_from_search(root) == ["docs/b.html: not in the search index"]


def test_generated_pages_are_listed_with_their_commands():
    assert check_docs.pages("# note\ndocs/a.md: trine chips --x a:b\n") == {"docs/a.md": "trine chips --x a:b"}


def test_this_repository_keeps_its_arrows():
    assert check_layers.broken_arrows(Path(__file__).resolve().parent.parent.parent) == []


STORED = "# jax: 2 programs\nmlp\n  plan   aaaa  1 tile\n  trn1   bbbb  9 ns\nlstm\n  plan   cccc  while 1\n"


def history(root, *commits):
    """A repository: each commit is (files, subject, body)."""

    def git(*words):
        subprocess.run(["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

    root.mkdir(exist_ok=True)
    git("init", "-q")
    for files, subject, body in commits:
        tree(root, files)
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", f"{subject}\n\n{body}")
    return root


def stored(text):
    return {"tests/replay/stored/jax.txt": text}


def test_a_commit_that_says_same_may_not_move_a_stored_program(tmp_path):
    first = (stored(STORED), "tests: a corpus", "")
    other = stored(STORED.replace("bbbb", "beef"))
    assert check_commits.broken(history(tmp_path / "a", first, ({"x": "1"}, "base: tidy [same]", ""))) == []
    (found,) = check_commits.broken(history(tmp_path / "b", first, (other, "compile: faster [same]", "why")))
    assert "says [same], yet 1 stored forms moved: jax/mlp, trn1" in found
    dropped = stored(STORED.split("lstm")[0])
    (found,) = check_commits.broken(history(tmp_path / "c", first, (dropped, "tests: fewer [same]", "why")))
    assert "jax/lstm, plan" in found


def test_a_commit_that_moves_a_stored_program_says_why(tmp_path):
    first = (stored(STORED), "tests: a corpus", "")
    other = stored(STORED.replace("bbbb", "beef"))
    assert check_commits.broken(history(tmp_path / "a", first, (other, "compile: faster", "mlp on trn1 takes 8 ns instead of 9"))) == []
    (found,) = check_commits.broken(history(tmp_path / "b", first, (other, "compile: faster", "Signed-off-by: A B <a@b>")))
    assert "its body is to say what moved and why" in found
    more = stored(STORED + "gru\n  plan   dddd  while 1\n")
    assert check_commits.broken(history(tmp_path / "c", first, (more, "tests: one more [same]", ""))) == []


def test_history_that_is_cut_off_or_not_there_breaks_nothing(tmp_path):
    first = (stored(STORED), "tests: a corpus", "")
    bad = (stored(STORED.replace("bbbb", "beef")), "compile: faster [same]", "")
    whole = history(tmp_path / "whole", first, bad)
    assert len(check_commits.broken(whole)) == 1
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{whole}", str(tmp_path / "shallow")], check=True)
    assert check_commits.broken(tmp_path / "shallow") == []  # its one commit has no parent here
    assert check_commits.main([str(tmp_path)]) == 0  # no repository
