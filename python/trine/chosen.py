"""The instance that a user chose for everything: known without NumPy, for commands that need no more of it."""

import json
import os
from pathlib import Path


def chosen_instance() -> str | None:
    """TRINE_INSTANCE, else what `trine use` saved, else None."""
    if name := os.environ.get("TRINE_INSTANCE"):
        return name
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", ""), ".config")
    try:
        return json.loads(Path(base, "trine/settings.json").read_text()).get("instance") or None
    except (OSError, ValueError):
        return None
