"""`make replay`: compiles the corpus and says which programs are others than the stored ones, and in which lines.

UPDATE=1 (--update) stores what comes out now; BASE=PATH (--base) compares with another build instead, every line of
every program; ONLY=REGEX (--only) takes some of the programs. Nothing of the user's environment decides what comes out.
"""

import argparse
import importlib.util
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
if __name__ == "__main__":
    sys.path[0] = str(TESTS)  # not this folder: its name is the package's

from replay import corpus, difference, listings, stored  # noqa: E402

PROGRAMS_SHOWN, LINES_SHOWN = 12, 24  # unless --full
LEFT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONHASHSEED", "TRINE_THREADS", "TRINE_ISA", "LD_PRELOAD", "ASAN_OPTIONS")
CASES = {}  # of this run; processes that are forked see them


def use_build(root):
    """Makes `import trine` mean the package of a build, not the one that was installed from another folder."""
    sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__name__.startswith("ScikitBuild")]
    found = importlib.util.find_spec("trine")
    if not found or not Path(found.origin).is_relative_to(root):
        sys.exit(f"replay: trine is {found and found.origin}; expected the one in {root}/python")


def environment(root):
    """Of a process that compiles with the build in `root`."""
    kept = {k: os.environ[k] for k in LEFT if k in os.environ}
    path = os.pathsep.join(str(p) for p in (root / "python", root / "python/compat"))
    # glibc picks functions by processor, whose last bits may differ: constants are folded with the oldest ones.
    same = {"NEURON_CC_FLAGS": "--no_cache", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}
    return kept | same | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}


# What is kept of a program: all texts, those that are stored, or none.


def with_texts(key):
    made = CASES[key].make()
    return key, {form: (listings.digest(text), about, text) for form, (text, about) in made.items()}


def with_short_texts(key):
    _, forms = with_texts(key)
    return key, {f: (h, s, t if len(t) <= stored.LONGEST else None) for f, (h, s, t) in forms.items()}


def with_hashes(key):
    _, forms = with_texts(key)
    return key, {f: (h, s, None) for f, (h, s, _) in forms.items()}


KEEP = {"texts": with_texts, "short": with_short_texts, "hashes": with_hashes}


def collect(jobs, keep, only=None, exactly=None):
    """{key: {form: (hash, summary, text or None)}} by the trine that this process imports."""
    CASES.update({c.key: c for c in corpus.cases() if (not only or re.search(only, c.key)) and (exactly is None or c.key in exactly)})
    begin, out = time.monotonic(), {}
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for i, (key, forms) in enumerate(pool.imap_unordered(KEEP[keep], CASES), 1):
            out[key] = forms
            if sys.stderr.isatty():
                print(f"\r{i} of {len(CASES)} programs, {time.monotonic() - begin:.0f} s ", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    return out


def collect_in(root, jobs, keep, only=None, exactly=None):
    """The same of the build in a folder, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "made")
        words = [sys.executable, __file__, "--collect", made, "--base", root, "--keep", keep, "--jobs", str(jobs)]
        if only:
            words += ["--only", only]
        if exactly is not None:
            Path(folder, "exactly").write_text("\n".join(exactly))
            words += ["--exactly", Path(folder, "exactly")]
        if subprocess.run(words, env=environment(root)).returncode:
            sys.exit(f"replay: the corpus did not compile with the build in {root}")
        return pickle.loads(made.read_bytes())


def compare_stored(args):
    before = {k: v for k, v in stored.read().items() if not args.only or re.search(args.only, k)}
    now = collect_in(ROOT, args.jobs, "hashes", args.only)
    changed, gone, new = difference.differing(before, now)
    if changed:
        now |= collect_in(ROOT, args.jobs, "short", exactly=[key for key, _ in changed[: args.most]])
    return before, now, changed, gone, new


def compare_base(args):
    base = Path(args.base).resolve()
    if not list((base / "python/trine").glob("_core*.so")):
        sys.exit(f"replay: {base} has no build of trine; expected python/trine/_core*.so, which `make build` makes there")
    before, now = (collect_in(root, args.jobs, "hashes", args.only) for root in (base, ROOT))
    changed, gone, new = difference.differing(before, now)
    if changed:
        keys = [key for key, _ in changed[: args.most]]
        before |= collect_in(base, args.jobs, "texts", exactly=keys)
        now |= collect_in(ROOT, args.jobs, "texts", exactly=keys)
    return before, now, changed, gone, new


def update(args):
    found = collect_in(ROOT, args.jobs, "short", args.only)
    if args.only:
        found = {k: v for k, v in stored.read().items() if not re.search(args.only, k)} | found
    stored.write(found)
    print(f"replay: {len(found)} programs stored; git diff tests/replay/stored/*.txt says what moved")
    return 0


def compare(args):
    begin = time.monotonic()
    before, now, changed, gone, new = (compare_base if args.base else compare_stored)(args)
    than = args.base or "stored"
    took = f"{time.monotonic() - begin:.0f} s"
    if not (changed or gone or new):
        print(f"replay: {len(now)} programs, {sum(map(len, now.values())):,} forms, all as {than} ({took})")
        return 0
    print("\n".join(difference.report(before, now, changed, gone, new, 10**9 if args.full else LINES_SHOWN)))
    print(f"\nreplay: {len(changed)} of {len(now)} programs differ from {than}, {len(gone)} gone, {len(new)} new ({took})")
    if len(changed) > args.most:
        print(f"  lines are shown of the first {args.most}; FULL=1 shows all, ONLY=REGEX some")
    if not args.base:
        print("  BASE=<folder of another build> shows lines of long programs too")
        print("  where it is meant: make replay UPDATE=1, and the commit's body says what moved and why")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="store what comes out now")
    parser.add_argument("--base", metavar="PATH", help="compare with the build in this folder instead of what is stored")
    parser.add_argument("--only", metavar="REGEX", help="programs whose group/name it finds")
    parser.add_argument("--full", action="store_true", help="every line of every difference")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    for internal in ("--collect", "--keep", "--exactly"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.collect:
        use_build(Path(args.base))
        exactly = set(Path(args.exactly).read_text().split("\n")) if args.exactly else None
        Path(args.collect).write_bytes(pickle.dumps(collect(args.jobs, args.keep, args.only, exactly)))
        return 0
    args.most = 10**9 if args.full else PROGRAMS_SHOWN
    return update(args) if args.update else compare(args)


if __name__ == "__main__":
    sys.exit(main())
