"""Holds commits to what their subjects promise about tests/replay/stored.

A commit whose subject ends in [same] leaves every stored program as it was; one that changes or drops any says in its
body what moved and why. New programs need no words. All commits since the corpus exists are looked at, those of a
shallow clone as far as it goes. `python tests/check_commits.py [root]` exits 1 and names the commits that break it.
"""

import re
import subprocess
import sys
from pathlib import Path

from replay import stored

STORED = "tests/replay/stored"
TRAILER = re.compile(r"^(signed-off-by|co-authored-by|reviewed-by|change-id):.*$", re.I | re.M)  # say nothing of programs


def git(root, *words):
    return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True).stdout


def commits(root):
    """(hash, subject, body) of those that touch what is stored and whose parent is known, newest first."""
    form = "%H%x00%P%x00%s%x00%b%x1e"
    for record in git(root, "log", "--full-history", "--no-merges", f"--format={form}", "--", STORED).split("\x1e"):
        if record.strip():
            hash, parent, subject, body = record.strip("\n").split("\x00")
            if parent:
                yield hash, subject, TRAILER.sub("", body).strip()


def hashes(root, commit, file):
    """{program and form: hash} of a stored file, nothing where the commit has none."""
    shown = subprocess.run(["git", "-C", str(root), "show", f"{commit}:{file}"], capture_output=True, text=True)
    programs = stored.parsed(Path(file).stem, shown.stdout, {}) if shown.returncode == 0 else {}
    return {f"{key}, {form}": hash for key, forms in programs.items() for form, (hash, _, _) in forms.items()}


def moved(root, commit):
    """Programs with their forms that a commit changed or dropped."""
    out = []
    for file in git(root, "diff", "--name-only", f"{commit}^", commit, "--", STORED).split("\n"):
        if file.endswith(".txt"):
            before, now = hashes(root, f"{commit}^", file), hashes(root, commit, file)
            out += [key for key, hash in before.items() if now.get(key) != hash]
    return out


def broken(root):
    out = []
    for hash, subject, body in commits(root):
        promises = subject.endswith("[same]")
        if not promises and body:
            continue
        found = moved(root, hash)
        if found and promises:
            out.append(f"{hash[:12]} {subject}\n  says [same], yet {len(found)} stored forms moved: {found[0]}, …")
        elif found:
            out.append(f"{hash[:12]} {subject}\n  moves {len(found)} stored forms ({found[0]}, …); its body is to say what moved and why")
    return out


def main(words):
    root = Path(words[0] if words else ".")
    try:
        git(root, "rev-parse", "--verify", "HEAD")
    except (subprocess.CalledProcessError, FileNotFoundError):
        print("commits: no history here, so none is checked")
        return 0
    found = broken(root)
    print("\n".join(found) or "commits: each that moves stored programs says so")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
