"""One request as the engine takes it, whatever wire it came by: tokens, sampling, stops, grammar.

Every number a body can hold is checked here; the engine sees only values in range.
"""

import dataclasses
import math

from trine.serve.errors import Wrong, too_long

STOPS, STOP_LENGTH, BIASES, CHOICES = 16, 1024, 1024, 128


@dataclasses.dataclass
class Job:
    prompt: list
    sampling: dict = dataclasses.field(default_factory=dict)  # the engine's names
    stops: list = dataclasses.field(default_factory=list)  # strings
    grammar: str | None = None
    special: bool = False  # show special tokens
    key: str = ""
    adapter: str | None = None
    session: str | None = None
    embed: bool = False
    echo: bool = False

    @property
    def choices(self):
        return self.sampling.get("n", 1)


def number(body, name, low, high, otherwise=None, kind=float, aliases=()):
    for one in (name, *aliases):
        if (value := body.get(one)) is not None:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or (kind is int and int(value) != value if math.isfinite(value) else True):
                raise Wrong(f"{one} is {value!r}; expected {'a whole number' if kind is int else 'a number'}", 400, one)
            if not low <= value <= high:
                raise Wrong(f"{one} is {value}; expected {low:g} to {high:g}", 400, one)
            return kind(value)
    return otherwise


def flag(body, name, otherwise=False):
    value = body.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, bool):
        raise Wrong(f"{name} is {value!r}; expected true or false", 400, name)
    return value


def text(body, name, otherwise=None):
    value = body.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, str):
        raise Wrong(f"{name} is {type(value).__name__}; expected a string", 400, name)
    return value


def stops_of(body, name="stop"):
    given = body.get(name)
    given = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(given, list) or not all(isinstance(s, str) for s in given):
        raise Wrong(f"{name} must be a string or a list of strings", 400, name)
    if len(given) > STOPS or any(len(s) > STOP_LENGTH for s in given):
        raise Wrong(f"{name} has {len(given)} strings; at most {STOPS}, each of up to {STOP_LENGTH} characters", 400, name)
    return [s for s in given if s]


def bias_of(body, size):
    given = body.get("logit_bias")
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > BIASES:
        raise Wrong(f"logit_bias must be an object of at most {BIASES} tokens", 400, "logit_bias")
    out = {}
    for token, value in given.items():
        if not str(token).isdecimal() or not int(token) < size:
            raise Wrong(f"logit_bias: {token!r} is no token of this model (0 to {size - 1})", 400, "logit_bias")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -100 <= value <= 100:
            raise Wrong(f"logit_bias: {value!r} for token {token}; expected -100 to 100", 400, "logit_bias")
        out[int(token)] = float(value)
    return out


def sampling_of(body, model):
    """The engine's sampling fields from an OpenAI-like body."""
    big = float(1 << 31)
    out = {
        "temperature": number(body, "temperature", 0, 2, 1.0), "top_p": number(body, "top_p", 0, 1, 1.0),
        "top_k": number(body, "top_k", -1, big, 0, int), "min_p": number(body, "min_p", 0, 1, 0.0),
        "presence_penalty": number(body, "presence_penalty", -2, 2, 0.0), "frequency_penalty": number(body, "frequency_penalty", -2, 2, 0.0),
        "repetition_penalty": number(body, "repetition_penalty", 0.01, 10, 1.0), "logit_bias": bias_of(body, model.text.size),
        "seed": number(body, "seed", -(2.0**63), 2.0**63, None, int), "n": number(body, "n", 1, CHOICES, 1, int),
        "min_tokens": number(body, "min_tokens", 0, big, 0, int), "ignore_eos": flag(body, "ignore_eos"),
        "priority": number(body, "priority", -1000, 1000, 0, int), "deadline_s": number(body, "timeout_s", 0, 86400, None),
        "logprobs": -1, "prompt_logprobs": -1}  # fmt: skip
    out["top_k"] = max(0, out["top_k"])
    stop_tokens = body.get("stop_token_ids") or []
    if not isinstance(stop_tokens, list) or not all(isinstance(t, int) and not isinstance(t, bool) and 0 <= t < model.text.size for t in stop_tokens):
        raise Wrong("stop_token_ids must be a list of tokens of this model", 400, "stop_token_ids")
    out["stop_tokens"] = stop_tokens[:CHOICES]
    if (best := number(body, "best_of", 1, CHOICES, None, int)) is not None:
        if best < out["n"]:
            raise Wrong(f"best_of is {best}, less than n, {out['n']}", 400, "best_of")
        out["best_of"] = best
    return out


def room_for(prompt, asked, context, default=None):
    """How many tokens may follow; what does not fit is an error that the clients know."""
    left = context - len(prompt)
    if left < 1 or (asked is not None and asked > left):
        raise too_long(len(prompt), context, asked or 0)
    return asked if asked is not None else min(left, default or left)


def tokens_of(value, size, where="prompt"):
    if not all(isinstance(t, int) and not isinstance(t, bool) and 0 <= t < size for t in value):
        raise Wrong(f"{where}: tokens are whole numbers from 0 to {size - 1}", 400, where)
    return value
