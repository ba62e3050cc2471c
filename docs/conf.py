"""Sphinx's settings for the documentation site; `make docs-html` builds it into build/docs, without a warning.

The source folder is the whole repository, so links between pages, the READMEs of the code's rooms and files mean the
same here as on GitHub. Nothing is fetched, neither while building nor by the pages.
"""

import inspect
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

project = "Trine"
author = "the Trine authors"
copyright = "the Trine authors, Apache-2.0. Not affiliated with Amazon Web Services"
release = re.search(r"project\(trine VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "docs/**", *(f"{folder}/**/README.md" for folder in ("src", "python", "examples", "tests"))]
exclude_patterns = [".*", "build*", "out", "bench", "tests/fuzz", "**/__pycache__"]
default_role = "literal"  # `name` in docstrings, as in Markdown

myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a room's README may begin below a title

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "Trine"
html_static_path = ["_static"]
html_css_files = ["trine.css"]
html_copy_source = html_show_sourcelink = False
html_show_search_summary = False  # summaries would be fetched, which a browser refuses for file://
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "github-dark"


def link_to_readme(app, document, source):
    """A link to a folder is a link to its README, where it has one; other folders are named without a link."""
    here = (ROOT / document).parent

    def one(match):
        text, target = match.groups()
        path = Path(os.path.normpath(here / target.rstrip("/")))
        if re.match(r"[a-z]+:", target) or not path.is_dir():
            return match[0]
        return f"[{text}]({target.rstrip('/')}/README.md)" if (path / "README.md").exists() else text

    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)\)", one, source[0])


def list_other_pages(app, document, source):
    """The line `(others)` of the first page's lists stands for the pages of docs/ that no list names."""
    if document == root_doc:
        pages = (p.stem for p in sorted((ROOT / "docs").glob("*.md")) if p.stem != "index")
        others = [p for p in pages if not re.search(rf"^{p}$", source[0], re.M)]
        source[0] = source[0].replace("(others)\n", "".join(f"{p}\n" for p in others))


def plain_docstring(app, what, name, obj, options, lines):
    """Our docstrings are plain text: indented lines are code, and stars are stars."""
    text, out, inside = inspect.cleandoc("\n".join(lines)).splitlines(), [], False
    for line in text:
        code = line.startswith(("  ", "\t"))
        if code and not inside:
            out += ["", "::", ""]
        elif inside and line and not code:
            out.append("")
        inside = code or (inside and not line)
        out.append(line if code else re.sub(r"(?<!\\)([*|])", r"\\\1", line))
    lines[:] = out


def add_front_door(app, error):
    """build/docs/index.html leads to the first page, which lies a folder deeper, as the sources do."""
    if error is None and app.builder.name == "html":
        page = '<!doctype html><title>Trine</title><meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">Trine</a>\n'
        (Path(app.outdir) / "index.html").write_text(page)


def setup(app):
    app.connect("source-read", link_to_readme)
    app.connect("source-read", list_other_pages)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("build-finished", add_front_door)
