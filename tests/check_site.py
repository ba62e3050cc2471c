"""Holds the built documentation site to two promises: it fetches nothing from elsewhere, and its search knows its pages.

`python tests/check_site.py build/docs`. A link that a reader may follow is no fetch; scripts, styles, fonts and images are.
"""

import html.parser
import json
import re
import sys
from pathlib import Path

REMOTE = re.compile(r"^(https?:)?//", re.I)
FETCHED = {"script": ("src",), "img": ("src", "srcset"), "link": ("href",), "iframe": ("src",), "source": ("src", "srcset"), "video": ("src",), "object": ("data",)}
IN_STYLE = re.compile(r"@import\s+[\"']?((?:https?:)?//[^\"')\s]+)|url\(\s*[\"']?((?:https?:)?//[^\"')\s]+)", re.I)
# What sites that promise nothing use; in a page's own script it would be fetched when it runs.
IN_SCRIPT = re.compile(r"(?:import\(|fetch\(|\.src\s*=)\s*[\"'`]((?:https?:)?//[^\"'`]+)")
NOT_FETCHED = {"canonical", "prev", "next", "license", "author", "search", "index"}  # rel= of links that only say something


class Assets(html.parser.HTMLParser):
    """What a page makes the browser fetch from other hosts."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "link" and set((given.get("rel") or "").split()) & NOT_FETCHED:
            return
        self.found += [given[name] for name in FETCHED.get(tag, ()) if REMOTE.match(given.get(name) or "")]
        self.found += [m[1] or m[2] for m in IN_STYLE.finditer(given.get("style") or "")]


def remote_assets(site: Path) -> list[str]:
    problems = []
    for file in sorted(site.rglob("*")):
        if file.suffix not in (".html", ".css", ".js", ".svg"):
            continue
        text = file.read_text(errors="replace")
        found = [m[1] or m[2] for m in IN_STYLE.finditer(text)]
        if file.suffix == ".html":
            page = Assets()
            page.feed(text)
            found += page.found
        if file.suffix in (".html", ".js"):
            found += [m[1] for m in IN_SCRIPT.finditer(text)]
        problems += [f"{file.relative_to(site)}: fetches {url}" for url in found]
    return problems


def searched_pages(site: Path) -> set[str]:
    """Pages that the search index knows. It is a script, so that a browser loads it from a folder too."""
    text = (site / "searchindex.js").read_text()
    return set(json.loads(re.fullmatch(r"Search\.setIndex\((.*)\);?\s*", text, re.S)[1])["docnames"])


def missing_from_search(site: Path) -> list[str]:
    known = searched_pages(site)
    pages = {str(f.relative_to(site).with_suffix("")) for f in site.rglob("*.html")}
    others = {"index", "search", "genindex", "py-modindex"}
    return [f"{page}.html: not in the search index" for page in sorted(pages - known - others)]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    wrong = remote_assets(folder) + missing_from_search(folder)
    print("\n".join(wrong) or f"site: {len(searched_pages(folder))} pages, nothing fetched from elsewhere, all searchable")
    sys.exit(bool(wrong))
