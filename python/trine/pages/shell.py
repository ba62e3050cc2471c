"""The frame that all pages share, and a page as one file: the same modules, their data and ECharts put into the HTML.

Pages are plain ES modules under assets/. From the server a module is a file; in one file each is a data: address in an
import map. Either way nothing is asked of any other machine: the policy in the page's head forbids it.
"""

import base64
import functools
import html
import json
import re
from pathlib import Path

from trine.command import OUTSIDE, Stop
from trine.pages.server import plain

ASSETS = Path(__file__).parent / "assets"
ECHARTS = "vendor/echarts.min.js"
FILE_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
IMPORT = re.compile(r"""(\bfrom\s*|\bimport\s*)(["'])\./([\w/.-]+\.js)\2""")
FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 3h12v2H9v9H7V5H2z' fill='%230072b2'/%3E%3C/svg%3E">
{head}
<title>{title}</title>
</head>
<body data-page="{page}">
<noscript>This page draws with JavaScript, which is turned off.</noscript>
<div id="app"></div>
{tail}
</body>
</html>
"""


@functools.cache
def assets():
    """{name: bytes} of everything a page may ask for; read once."""
    found = {p.relative_to(ASSETS).as_posix(): p.read_bytes() for p in sorted(ASSETS.rglob("*")) if p.suffix in (".js", ".css", ".txt")}
    if ECHARTS not in found:
        raise Stop(OUTSIDE, f"{ASSETS / ECHARTS} is missing: `make build`, or `pip install .`, puts ECharts there")
    return found


def files():
    """What a server hands out, by path."""
    return {f"/static/{name}": data for name, data in assets().items()}


def live(title, page):
    """The HTML of a page whose data the server gives. `page` names its module, assets/<page>.js."""
    head = '<link rel="stylesheet" href="/static/style.css">'
    tail = f'<script src="/static/{ECHARTS}"></script>\n<script type="module" src="/static/{page}.js"></script>'
    return FRAME.format(title=html.escape(title), page=page, head=head, tail=tail)


def script(text):
    """Code as it may stand in a script element; ECharts' own has the end tag in no string."""
    return text.replace("</script", "<\\/script")


def data(value):
    """JSON as it may stand in a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def needed(page):
    """The modules that a page reaches, itself among them."""
    held, open_names = assets(), [f"{page}.js"]
    seen = {}
    while open_names:
        name = open_names.pop()
        if name not in seen:
            text = held[name].decode()
            seen[name] = text
            open_names += [m[3] for m in IMPORT.finditer(text)]
    return seen


def one_file(title, page, stored):
    """The page with `stored` ({path?query: value, bytes among them}) in it; a colleague opens it from a mail."""
    modules = {name: IMPORT.sub(r"\1\2trine/\3\2", text) for name, text in needed(page).items()}
    addresses = {f"trine/{name}": "data:text/javascript;base64," + base64.b64encode(text.encode()).decode() for name, text in modules.items()}
    packed = {path: {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else {"value": plain(value)} for path, value in stored.items()}
    head = f'<meta http-equiv="Content-Security-Policy" content="{FILE_POLICY}">\n<style>{assets()["style.css"].decode()}</style>'
    tail = [
        f'<script type="importmap">{json.dumps({"imports": addresses})}</script>',
        f'<script type="application/json" id="stored">{data(packed)}</script>',
        f"<script>{script(assets()[ECHARTS].decode())}</script>",
        f'<script type="module">import "trine/{page}.js";</script>',
    ]
    return FRAME.format(title=html.escape(title), page=page, head=head, tail="\n".join(tail))
