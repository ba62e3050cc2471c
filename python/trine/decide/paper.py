"""Pages of reports as self-contained HTML: one style for light and dark screens and for paper, tables, no script.

On paper everything is black on white whatever the screen was, rows stay whole, and nothing is wider than the sheet.
"""

import html
import os
import re
import tempfile

from trine.command import note

STYLE = """
body { font: 15px/1.45 system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; color: #1b1f24; background: #fff; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } svg { max-width: 100%; height: auto }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #d8dee4 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } td.n { white-space: nowrap } th { vertical-align: bottom } code { font: 13px ui-monospace, 'DejaVu Sans Mono', monospace; overflow-wrap: anywhere }
td { overflow-wrap: break-word } td:first-child { white-space: nowrap } td:first-child:has(code) { white-space: normal } td:first-child code { overflow-wrap: break-word }
.answer { font-size: 1.1rem; padding: .7rem 1rem; background: #f1f5f9; border-left: 4px solid #2563eb; white-space: pre-line }
.error { color: #b42318 } .warning { color: #8a5a00 } .note { color: #57606a } .quiet { color: #57606a }
@media screen and (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3 } .answer { background: #161b22 } th, td { border-color: #30363d }
  .error { color: #ff7b72 } .warning { color: #d29922 } .note, .quiet { color: #8b949e } }
@page { size: A4; margin: 14mm 12mm }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 9.5pt } h1 { font-size: 15pt } h2 { font-size: 11.5pt; margin-top: 1.2em; break-after: avoid }
  .answer { font-size: 11pt; break-inside: avoid; print-color-adjust: exact; -webkit-print-color-adjust: exact } code { font-size: 8pt } tr, svg { break-inside: avoid }
  td, th { padding-right: .5rem } svg { print-color-adjust: exact; -webkit-print-color-adjust: exact } thead { display: table-header-group } }
"""


def place(file, line):
    """A line of a file, which may break after a folder, or within a name that is too long."""
    parts = re.findall(r"[^/]{1,30}/?|/", file)
    return f"<code>{'<wbr>'.join(html.escape(p) for p in parts)}:{line}</code>"


def row(cells, tag="td", right=()):
    return "<tr>" + "".join(f"<{tag}{' class=n' if i in right else ''}>{c}</{tag}>" for i, c in enumerate(cells)) + "</tr>"


def table(head, rows, right=()):
    """Cells are HTML already; `right` are the columns of numbers. Without words in its head it has none."""
    titles = f"<thead>{row(map(html.escape, head), 'th', right)}</thead>" if any(head) else ""
    return f"<table>{titles}<tbody>{''.join(row(r, 'td', right) for r in rows)}</tbody></table>"


def plain(head, rows, right=()):
    """A table of cells that are text."""
    return table(head, [[html.escape(str(c)) for c in r] for r in rows], right)


def page(title, parts):
    """The whole file; `parts` are HTML."""
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{html.escape(title)}</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en>{head}<body>{''.join(parts)}</body></html>\n"


def saved(path, write):
    """write(path), told; a place that cannot be written is told too, and costs nothing but the file. Whether it is there."""
    try:
        write(path)
    except OSError as e:
        note(f"{path}: cannot be written: {e.strerror or e}")
        return False
    note(f"→ {path}")
    return True


def write(path, text, like=None):
    """Whole or not at all: beside it first, then in its stead. Line ends stay as they are. A pipe or a device is written to."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(text)
        return
    handle, beside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".trine-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as f:
            f.write(text)
        mode = os.stat(like).st_mode & 0o7777 if like else 0o666 & ~_umask()
        os.chmod(beside, mode)
        if like and not os.access(like, os.W_OK):
            raise PermissionError(13, "read-only")
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
