"""Models by their configuration, written once as JAX functions: `build(load_config(path))`.

`families.py` has one row per family and docs/models.md shows them. Parameters are plain trees of arrays. Importing this
needs no JAX; building a model does.
"""

import difflib
import json
from pathlib import Path

from trine.models.families import FAMILIES, ConfigError
from trine.models.files import is_gguf

__all__ = ["FAMILIES", "ConfigError", "build", "configurations", "load_config", "phase"]

LARGEST = 1 << 26  # bytes of a configuration
CONFIGS = Path(__file__).parent / "configs"


def configurations():
    """Names of the configurations that come with the package."""
    return sorted(file.stem for file in CONFIGS.glob("*.json"))


def load_config(path):
    """The configuration of a config.json, of a folder that has one, of a GGUF file, or of one of `configurations()`."""
    path = Path(path)
    if path.is_dir():
        path = path / "config.json"
    elif not path.exists() and (CONFIGS / f"{path}.json").exists():
        path = CONFIGS / f"{path}.json"
    if not path.exists():
        near = difflib.get_close_matches(path.name.lower(), configurations(), 3)
        known = f"nearest: {', '.join(near)}; docs/models.md has all" if near else f"these are {', '.join(configurations())}"
        raise ConfigError(f"{path}: no such file, and no configuration that comes with Trine; {known}")
    if is_gguf(path):
        from trine.models.gguf import Gguf

        return Gguf(path).config()
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise ConfigError(f"{path}: no file of at most {LARGEST:,} bytes; expected a config.json")
    try:
        config = json.loads(path.read_text())
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{path}: not JSON: {e}") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: a configuration is an object, this is {type(config).__name__}")
    return config


def build(config, dtype="float32"):
    """The model of a configuration, given as a dictionary or as what `load_config` takes."""
    from trine.models.model import Model

    return Model(config if isinstance(config, dict) else load_config(config), dtype)


def phase(model, phase, batch, seq, tp=1, parts=1, tokens=None):
    """(function, argument shapes) of prefill, decode, train, gradients or forward; see `trine.models.phases`."""
    from trine.models import phases

    return phases.phase(model, phase, batch, seq, tp, parts, tokens)
