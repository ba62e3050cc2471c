"""Who may ask, how much and for how many dollars of chip time.

Keys are compared by their hash. A row of a keys file: {"key", "name", "requests_per_minute", "tokens_per_minute",
"budget_usd", "admin"}; what is spent is kept in the store, so a restart does not refill a budget.
"""

import collections
import dataclasses
import hashlib
import hmac
import json
import os
import secrets
import time
from pathlib import Path

from trine.serve.errors import Wrong

FIELDS = {"key": str, "name": str, "requests_per_minute": (int, float), "tokens_per_minute": (int, float), "budget_usd": (int, float), "admin": bool}


@dataclasses.dataclass
class Key:
    name: str
    digest: bytes
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    budget_usd: float | None = None
    admin: bool = False
    spent_usd: float = 0.0
    tokens: int = 0
    requests: int = 0
    recent: collections.deque = dataclasses.field(default_factory=collections.deque)  # (when, tokens)


def digest(key):
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def own_key(path):
    """The key of this user's file, written the first time; only its owner can read it."""
    path = Path(path).expanduser()
    try:
        found = path.read_text().strip()
        if found:
            return found
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    made = "tr-" + secrets.token_urlsafe(24)
    new = path.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(made + "\n")
    try:
        os.link(new, path)  # whoever comes first wins
    except FileExistsError:
        made = path.read_text().strip()
    finally:
        new.unlink()
    return made


def rows_of(path):
    try:
        rows = json.loads(Path(path).read_text())
    except ValueError as e:
        raise ValueError(f"{path}: no JSON: {e}") from None
    if not isinstance(rows, list):
        raise ValueError(f"{path}: expected a list of keys")
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("key"), str) or len(row["key"]) < 8:
            raise ValueError(f"{path}: row {at} must be an object with a key of at least 8 characters")
        for name, value in row.items():
            if name not in FIELDS or not isinstance(value, FIELDS[name]):
                raise ValueError(f"{path}: row {at}: {name} is {value!r}; known are {', '.join(FIELDS)}")
    return rows


class Keys:
    def __init__(self, rows, store=None):
        self.store = store
        self.keys = []
        for at, row in enumerate(rows):
            row = dict(row)
            key = Key(row.pop("name", f"key-{at}"), digest(row.pop("key")), **row)
            if store:
                key.spent_usd, key.tokens, key.requests = store.spent(key.name)
            self.keys.append(key)

    def find(self, headers, cookie=None):
        """The key of a request's headers: Authorization: Bearer, or x-api-key."""
        given = headers.get("authorization", "")
        given = given[7:].strip() if given[:7].lower() == "bearer " else headers.get("x-api-key", "") or cookie or ""
        wanted = digest(given)
        found = None
        for key in self.keys:  # all of them, so that time says nothing
            if hmac.compare_digest(key.digest, wanted):
                found = key
        if found is None:
            text = "No API key was given" if not given else "Incorrect API key provided"
            raise Wrong(f"{text}; send it as `Authorization: Bearer …` or `x-api-key`.", 401, code="invalid_api_key")
        return found

    def admit(self, key):
        """Counts a request that will compute, or says when to come again."""
        now = time.monotonic()
        while key.recent and key.recent[0][0] < now - 60:
            key.recent.popleft()
        if key.budget_usd is not None and key.spent_usd >= key.budget_usd:
            raise Wrong(f"This key has spent ${key.spent_usd:.6f} of chip time; its budget is ${key.budget_usd:g}.", 429, code="insufficient_quota",
                        kind="insufficient_quota", headers={"x-should-retry": "false"})  # fmt: skip
        calls = sum(1 for _, tokens in key.recent if tokens is None)
        used = sum(tokens for _, tokens in key.recent if tokens is not None)
        for limit, count, what in ((key.requests_per_minute, calls, "requests"), (key.tokens_per_minute, used, "tokens")):
            if limit is not None and count >= limit:
                wait = max(1, int(key.recent[0][0] + 60 - now) + 1)
                raise Wrong(f"Rate limit reached: {count} {what} in the last minute, {limit:g} allowed. Try again in {wait} s.", 429,
                            code="rate_limit_exceeded", headers={"Retry-After": str(wait)})  # fmt: skip
        key.recent.append((now, None))
        key.requests += 1

    def spend(self, name, tokens, usd):
        key = next((k for k in self.keys if k.name == name), None)
        if key is not None:
            key.spent_usd += usd
            key.tokens += tokens
            key.recent.append((time.monotonic(), tokens))
            if self.store:
                self.store.spend(name, key.spent_usd, key.tokens, key.requests)
