"""Who answers: a row per policy, from what is known before an answer (`before`) or from the small model's own (`after`).

A policy gives a need between 0 and 1; more than the threshold goes to the large model. Rules give 0 or 1.
"""

import dataclasses
import json
import math
import random
import re
from collections.abc import Callable

# The first row that holds decides; `if` names conditions below.
RULES = [
    {"name": "private stays here", "if": {"metadata": {"private": "true"}}, "to": "local"},
    {"name": "long prompt", "if": {"characters_over": 6000}, "to": "remote"},
    {"name": "tools", "if": {"tools": True}, "to": "remote"},
    {"name": "asks to reason", "if": {"matches": r"(?i)\b(prove|derive|step by step|refactor|debug|analy[sz]e)\b"}, "to": "remote"},
    {"name": "code", "if": {"matches": r"```|\bdef \w+\(|#include\b|\bclass \w+"}, "to": "remote"},
    {"name": "not English", "if": {"non_ascii_over": 0.3}, "to": "remote"},
    {"name": "everything else", "if": {}, "to": "local"},
]


def text_of(body):
    parts = []
    for message in body.get("messages") or ():
        content = message.get("content") if isinstance(message, dict) else None
        parts += [content] if isinstance(content, str) else [p.get("text", "") for p in content or () if isinstance(p, dict)]
    return "\n".join(p for p in parts if isinstance(p, str))


CONDITIONS = {
    "characters_over": lambda body, text, limit: len(text) > limit,
    "characters_under": lambda body, text, limit: len(text) < limit,
    "tools": lambda body, text, wanted: bool(body.get("tools")) == wanted,
    "schema": lambda body, text, wanted: bool(body.get("response_format")) == wanted,
    "matches": lambda body, text, pattern: re.search(pattern, text[:20000]) is not None,
    "metadata": lambda body, text, wanted: all(str((body.get("metadata") or {}).get(k)).lower() == str(v).lower() for k, v in wanted.items()),
    "non_ascii_over": lambda body, text, share: bool(text) and sum(c > "\x7f" for c in text) / len(text) > share,
    "user": lambda body, text, wanted: body.get("user") == wanted,
}


def checked_rules(rows):
    if not isinstance(rows, list):
        raise ValueError("rules are a list of rows {name, if, to}")
    for row in rows:
        if not isinstance(row, dict) or row.get("to") not in ("local", "remote") or not isinstance(row.get("if", {}), dict):
            raise ValueError(f"a rule {json.dumps(row)[:100]}; expected {{name, if, to: local or remote}}")
        unknown = set(row.get("if", {})) - set(CONDITIONS)
        if unknown:
            raise ValueError(f"a rule's condition {sorted(unknown)[0]!r}; known are {', '.join(CONDITIONS)}")
        if "matches" in row.get("if", {}):
            re.compile(row["if"]["matches"])
    return rows


def by_rules(body, rules):
    """(need, reason)"""
    text = text_of(body)
    for row in rules:
        if all(CONDITIONS[name](body, text, value) for name, value in row.get("if", {}).items()):
            return (1.0 if row["to"] == "remote" else 0.0), row.get("name", row["to"])
    return 0.0, "no rule"


def confidence(logprobs):
    """How sure the small model was of what it wrote: half the mean probability, half that of its weakest tenth."""
    if not logprobs:
        return 0.0
    ordered = sorted(logprobs)
    weakest = ordered[: max(1, len(ordered) // 10)]
    return 0.5 * math.exp(sum(ordered) / len(ordered)) + 0.5 * math.exp(sum(weakest) / len(weakest))


def repeats(text):
    """A small model that goes in circles: a line or an eight-word stretch three times."""
    words = text.split()
    stretches = [" ".join(words[i : i + 8]) for i in range(len(words) - 7)]
    return any(stretches.count(s) >= 3 for s in set(stretches[:200]))


def doubt(logprobs, text):
    """(need, reason) from an answer of the small model."""
    if repeats(text):
        return 1.0, "the small model repeats itself"
    sure = confidence(logprobs)
    return 1.0 - sure, f"confidence {sure:.2f}"


@dataclasses.dataclass
class Policy:
    name: str
    what: str
    before: Callable | None = None  # (router, body) -> (need, reason)
    after: bool = False  # decides by the small model's answer


async def classified(router, body):
    return router.classifier.need(await router.embedded(text_of(body))), "classifier"


async def random_need(router, body):
    return random.random(), "drawn"


async def ruled(router, body):
    return by_rules(body, router.rules)


async def never(router, body):
    return 0.0, "always local"


async def always(router, body):
    return 1.0, "always remote"


POLICIES = {
    p.name: p
    for p in (
        Policy("local", "always the small model", never),
        Policy("remote", "always the large model", always),
        Policy("random", "drawn; the line every other policy must lie above", random_need),
        Policy("rules", "rows of conditions, the first that holds", ruled),
        Policy("classifier", "a logistic head over the small model's embedding, trained on a log", classified),
        Policy("cascade", "the small model answers; its own doubt escalates before the client sees a token", after=True),
    )
}
