"""`trine audit`: src/tools/commands/audit.cpp has its options."""

import difflib
import json
import os
import sys

from trine.command import OK, OUTSIDE, UNSUPPORTED, USAGE, Stop, note
from trine.decide import audit
from trine.decide.audit import page, report, sarif
from trine.decide.paper import saved, write
from trine.progress import stage


def run(asked) -> int:
    root = asked.words[0]
    if asked.fix and asked.diff:
        raise Stop(USAGE, "--diff shows what --fix would write; give one")
    if (asked.inputs or asked.train) and not asked.model:
        raise Stop(USAGE, f"--{'inputs' if asked.inputs else 'train'} is of the dry run; --model MODULE:FACTORY is missing")
    try:
        os.stat(root)
    except (FileNotFoundError, NotADirectoryError):
        raise Stop(UNSUPPORTED, f"found no {root}; expected a project's folder, or a file such as requirements.txt") from None
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
    print(json.dumps(report.as_dict(found, dry), indent=2) if asked.json else report.text(found, dry, asked.all))
    pages = ((asked.sarif, lambda: json.dumps(sarif.sarif(found), indent=2) + "\n"), (asked.html, lambda: page.page(found, dry)))
    return OK if all([saved(path, lambda path, made=made: write(path, made())) for path, made in pages if path]) else OUTSIDE


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
