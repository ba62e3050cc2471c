"""`trine audit`: src/tools/commands/audit.cpp has its options."""

import difflib
import json
import os
import sys
import tempfile

from trine.command import OK, OUTSIDE, UNSUPPORTED, USAGE, Stop, note
from trine.decide import audit
from trine.decide.audit import page, report, sarif
from trine.progress import stage


def run(asked) -> int:
    root = asked.words[0]
    if asked.fix and asked.diff:
        raise Stop(USAGE, "--diff shows what --fix would write; give one")
    if (asked.inputs or asked.train) and not asked.model:
        raise Stop(USAGE, f"--{'inputs' if asked.inputs else 'train'} is of the dry run; --model MODULE:FACTORY is missing")
    if not os.path.exists(root):
        raise Stop(UNSUPPORTED, f"found no {root}; expected a project's folder, or a file such as requirements.txt")
    with stage(f"reading {root}"):
        found = audit.audit(root)
    if not found.files:
        why = f"; {report.counted(len(found.skipped), 'file')} could not be read, the first: {': '.join(found.skipped[0])}" if found.skipped else ""
        raise Stop(UNSUPPORTED, f"{root}: found nothing to read{why}; expected Python, notebooks, requirements, CUDA or C++ sources, scripts or configurations")
    if asked.diff or asked.fix:
        return change(found, asked)
    dry = None
    if asked.model:
        from trine.decide.audit.dry_run import dry_run

        dry = dry_run(asked.model, asked.inputs, root, asked.instance, asked.train)
    for path, content in ((asked.sarif, lambda: json.dumps(sarif.sarif(found), indent=2) + "\n"), (asked.html, lambda: page.page(found, dry))):
        if path:
            write(path, content())
            note(f"→ {path}")
    print(json.dumps(report.as_dict(found, dry), indent=2) if asked.json else report.text(found, dry, asked.all))
    return OK


def change(found, asked):
    """Prints the patches, or writes them; each file is replaced at once, or not at all."""
    patches = audit.patches(found)
    if asked.diff:
        for file, before, after in patches:
            made = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file.name}", f"b/{file.name}")
            sys.stdout.write("".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in made))
        return OK
    written, refused = [], []
    for file, _, after in patches:
        try:
            write(file.path, after, like=file.path)
            written.append(file)
        except OSError as e:
            refused.append((file.name, e.strerror))
    left = audit.audit(found.root)
    if asked.json:
        print(json.dumps({"version": 1, "report": "audit", "written": [f.name for f in written], "refused": [{"file": n, "why": w} for n, w in refused],
                          "left": report.as_dict(left)}, indent=2))  # fmt: skip
    else:
        before = sum(bool(f.edits) for f in found.findings)
        print(f"{report.counted(before, 'place')} patched in {report.counted(len(written), 'file')}")
        print(report.text(left))
    for name, why in refused:
        note(f"trine audit: {name}: cannot be written: {why}")
    return OUTSIDE if refused else OK


def write(path, text, like=None):
    """Whole or not at all: beside it first, then in its stead. Line ends stay as they are."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, beside = tempfile.mkstemp(dir=folder, prefix=".audit-")
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
