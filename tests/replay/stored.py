"""What the corpus compiled to when it was last accepted: stored/<group>.txt and stored/<group>.xz.

The .txt has a few lines for each program, of every form its hash and a summary; the .xz the texts of forms that are not
long, so that a difference can be shown line by line. Programs are {key: {form: (hash, summary, text or None)}}.
"""

import collections
import lzma
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "stored"
LONGEST = 40_000  # characters of a text that is kept; of longer ones the hash and the summary are
HEAD = "# {group}: {count} programs, each with the hash and the summary of its forms. `make replay UPDATE=1` writes it.\n"


def parsed(group, text, texts):
    out, key = {}, None
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        if not line.startswith(" "):
            key = f"{group}/{line}"
            out[key] = {}
            continue
        form, hash, about = (line.strip().split(None, 2) + [""])[:3]
        out[key][form] = (hash, about, texts.get((key, form)))
    return out


def read(folder=FOLDER):
    out = {}
    for path in sorted(folder.glob("*.txt")):
        out |= parsed(path.stem, path.read_text(), read_texts(path.with_suffix(".xz")))
    return out


def read_texts(path):
    """{(key, form): text}"""
    if not path.exists():
        return {}
    out = {}
    for part in lzma.decompress(path.read_bytes()).decode().split("\x1e")[1:]:
        title, text = part.split("\n", 1)
        key, form = title.rsplit(" ", 1)
        out[key, form] = text
    return out


def write(found, folder=FOLDER):
    folder.mkdir(exist_ok=True)
    groups = collections.defaultdict(dict)
    for key in sorted(found):
        group, name = key.split("/", 1)
        groups[group][name] = found[key]
    for path in folder.iterdir():
        if path.stem not in groups:
            path.unlink()
    for group, programs in groups.items():
        lines, texts = [HEAD.format(group=group, count=len(programs))], []
        for name, forms in programs.items():
            lines.append(f"{name}\n")
            for form, (hash, about, text) in forms.items():
                lines.append(f"  {form:<6} {hash}  {about}\n")
                if text is not None and len(text) <= LONGEST:
                    texts.append(f"\x1e{group}/{name} {form}\n{text}")
        (folder / f"{group}.txt").write_text("".join(lines))
        packed = lzma.compress("".join(texts).encode(), preset=9 | lzma.PRESET_EXTREME)
        if not (folder / f"{group}.xz").exists() or (folder / f"{group}.xz").read_bytes() != packed:
            (folder / f"{group}.xz").write_bytes(packed)
