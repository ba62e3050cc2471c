"""`python -m trine …` is the `trine` command that was installed with this Python, whatever PATH has."""

import os
import shutil
import sys
import sysconfig


def find_trine():
    """The path of the command."""
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("trine", path=scripts) or shutil.which("trine")
    if not found:
        sys.exit(f"there is no trine command in {scripts}, nor on PATH; install trine for {sys.executable}")
    return found


def become_trine(words):
    """Ends this process in favour of the command's."""
    found = find_trine()
    os.execv(found, [found, *words])


if __name__ == "__main__":
    become_trine(sys.argv[1:])
