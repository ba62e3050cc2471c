"""again.py WORKERS [options of pytest]: all tests over the cores, and those that fail there, five at most, once more alone.

Most tests start processes and wait for them, and workers on every core can keep such a process from its time. A test that fails
alone too fails the run. One that passes alone is named at the end: it leans on the machine's load, and wants mending.
"""

import json
import subprocess
import sys
from pathlib import Path

TESTS_FAILED, MOST = 1, 5  # pytest's exit code; more failures are no matter of load
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(workers, *options):
    FAILED.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", *options]
    code = subprocess.run([*pytest, "-n", workers]).returncode
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if code != TESTS_FAILED or not 0 < len(failed) <= MOST:
        return code
    print(f"\nagain, alone: {len(failed)} of the tests above\n", flush=True)
    code = subprocess.run([*pytest, "--last-failed", "--last-failed-no-failures", "none"]).returncode
    if code == 0:
        print("\nfailed beside others and passed alone:\n  " + "\n  ".join(failed))
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
