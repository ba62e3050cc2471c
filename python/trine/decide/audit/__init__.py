"""`trine audit`: every dependence of a project on CUDA, what stands in for it on Trainium, and the hours that takes.

A project is read, never run. project.py lists its files, python.py, notebook.py, loose.py and lines.py read them, rules/ has the
rows, fix.py the patches; report.py, sarif.py and page.py show what was found; dry_run.py exports a model.
"""

import dataclasses
import os

from trine.decide.audit import fix, lines, loose, notebook, packages, project, python
from trine.decide.audit.rule import BLOCKS, EFFORTS, HOURS, KERNEL, LINE, RUNS, Finding, Rule

ROUNDS = 4  # of patches: one inside another is made in the next round


@dataclasses.dataclass
class Audit:
    """What was found in a project. `findings` are in order; their hours sum up to hours()."""

    root: str
    findings: list
    files: int
    lines: int
    skipped: list

    def of(self, *parts):
        return [f for f in self.findings if f.part in parts]

    def hours(self, *parts):
        found = self.of(*(parts or ("code",)))
        return round(sum(f.effort_h[0] for f in found), 2), round(sum(f.effort_h[1] for f in found), 2)

    def will_run(self):
        """In words: as it is, after --fix, or what must be done first."""
        code = self.of("code")
        left = [f for f in code if f.rule.effort != RUNS and not f.edits and not f.guarded]
        if not [f for f in code if f.rule.effort != RUNS]:
            return "as it is"
        if not left:
            return "after --fix"
        worst = BLOCKS if any(f.rule.effort == BLOCKS for f in left) else KERNEL if any(f.rule.effort == KERNEL for f in left) else HOURS
        return {BLOCKS: "after a change of method", KERNEL: "after its kernels are ported", HOURS: "after porting"}[worst]


def findings_of(text, file, kind, own=()):
    if kind == "python":
        found = python.findings(text, file, own)
        return found + packages.findings(text, file, found) if os.path.basename(file) == "setup.py" else found
    if kind == "loose":
        return loose.findings(text, file, own)
    if kind == "notebook":
        return notebook.findings(text, file, own)
    return lines.findings(text, file, kind, own)


def audit(root) -> Audit:
    """Reads a folder, or one file of any kind that is known (a file of another kind is read as requirements)."""
    files, skipped = project.files_of(root)
    own = project.own_names(files)
    found, line_count, file_count = [], 0, 0
    for file in files:
        text, why = project.text_of(file)
        if text is None:
            skipped.append((file.name, why))
            continue
        file_count, line_count = file_count + 1, line_count + text.count("\n") + (text[-1:] not in ("", "\n"))
        try:
            here = findings_of(text, file.name, file.kind, own)
        except ValueError as e:
            skipped.append((file.name, str(e)))
            continue
        for f in here:
            f.part = file.part
        found += checked(text, file, here, own)
    share_hours(found)
    return Audit(root, found, file_count, line_count, skipped)


def checked(text, file, found, own):
    """The findings, without patches where the patched file would not compile, or could not be written as it was read."""
    if any(f.edits for f in found):
        is_sound = project.is_writable(file, text)
        if is_sound and file.kind == "python" and fix.compiles(text, file.name):
            is_sound = fix.compiles(fixed_text(text, file.name, file.kind, own), file.name)
        if not is_sound:
            for f in found:
                f.edits = ()
    return found


def fixed_text(text, name, kind, own=()):
    """The text after all patches, those too that only show once others are made."""
    for _ in range(ROUNDS):
        found = [f for f in findings_of(text, name, kind, own) if f.edits]
        changed = fix.patched(text, found)
        if changed == text:
            break
        text = changed
    return text


def share_hours(found):
    """Gives each finding its hours: a rule's hours for a file or the project go to the first place of code."""
    counted = set()
    for f in sorted(found, key=lambda f: f.part != "code"):
        key = {"place": None, "file": (f.kind, f.file), "project": (f.kind,)}[f.rule.per]
        f.effort_h = f.rule.hours if (key is None or key not in counted) and not f.edits else (0, 0)
        counted.add(key)


def patches(found: Audit):
    """(name, before, after) of each file that --fix changes."""
    files, _ = project.files_of(found.root)
    own, out = project.own_names(files), []
    fixable = {f.file for f in found.findings if f.edits}
    for file in files:
        if file.name in fixable:
            text, _ = project.text_of(file)
            after = fixed_text(text, file.name, file.kind, own)
            if after != text and (file.kind != "python" or fix.compiles(after, file.name)):
                out.append((file, text, after))
    return out


__all__ = ["EFFORTS", "LINE", "Audit", "Finding", "Rule", "audit", "patches"]
