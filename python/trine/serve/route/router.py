"""One request through a policy: who answers, what happens when that side fails, what is logged.

A client never sees a token of an answer that is escalated: the small model's first tokens are held until it is trusted.
"""

import asyncio
import contextlib
import json
import os
import random
import time

from trine.serve import http, tools
from trine.serve.errors import Wrong
from trine.serve.route.policies import POLICIES, doubt, text_of
from trine.serve.route.upstream import Total

HELD = 24  # tokens of the small model that decide a cascade


class Log:
    """A line of JSON per request."""

    def __init__(self, path):
        self.file = open(path, "ab", buffering=0) if path else None

    def write(self, row):
        if self.file:
            os.write(self.file.fileno(), (json.dumps(row, ensure_ascii=False) + "\n").encode())


class Router:
    def __init__(self, local, remote, policy="rules", threshold=0.5, rules=(), classifier=None, budget_usd=None, latency_s=None, shadow=0.0, log=None):
        self.local, self.remote, self.policy, self.threshold = local, remote, policy, threshold
        self.rules, self.classifier, self.budget_usd, self.latency_s, self.shadow = rules, classifier, budget_usd, latency_s, shadow
        self.log = Log(log)
        self.spent = {"local": 0.0, "remote": 0.0}
        self.counts = {}
        self.tasks = set()

    async def embedded(self, text):
        return await self.local.embedding(text)

    def asked_policy(self, name):
        """`auto`, or router-<policy>-<threshold> as the model's name."""
        parts = str(name or "auto").split("-")
        if parts[0] == "router" and len(parts) >= 2 and parts[1] in POLICIES:
            try:
                return POLICIES[parts[1]], float(parts[2]) if len(parts) > 2 else self.threshold
            except ValueError:
                raise Wrong(f"the model {name!r}: expected router-<policy>-<threshold>", 404, "model", "model_not_found") from None
        return POLICIES[self.policy], self.threshold

    async def route(self, body, force=None):
        """Pieces of the answer; the first item is the row that will be logged, with `side` and `reason` set."""
        policy, threshold = self.asked_policy(body.get("model"))
        row = {"version": 1, "id": tools.new_id("route"), "time": time.time(), "policy": policy.name, "threshold": threshold, "characters": len(text_of(body)),
               "prompt": text_of(body)[-2000:], "need": None, "side": None, "reason": None, "fell_back": None}  # fmt: skip
        sides = {}
        if force in ("local", "remote"):
            row |= {"side": force, "reason": "forced"}
        elif self._broke() and policy.name != "local":
            row |= {"side": "local", "reason": f"the budget of ${self.budget_usd:g} is spent"}
        elif policy.before:
            if policy.name == "classifier" and self.classifier is None:
                raise Wrong("the classifier was not given; `trine route train LOG` makes one", 400, "model")
            row["need"], row["reason"] = await policy.before(self, body)
            row["side"] = "remote" if row["need"] > threshold else "local"
        held = None
        if row["side"] is None:
            held = await self._cascade(body, row, threshold, sides)
        async for item in self._answered(body, row, sides, held):
            yield item
        self._done(body, row, sides)

    def _broke(self):
        return self.budget_usd is not None and self.spent["remote"] >= self.budget_usd

    async def _cascade(self, body, row, threshold, sides):
        """Reads the small model's first tokens; returns them with the stream they come from, if it is trusted."""
        total = sides["local"] = Total()
        stream = self.local.pieces(body, total)
        held, probs = [], []
        try:
            async for piece in stream:
                held.append(piece)
                probs += [piece.logprob] if piece.logprob is not None else []
                if len(probs) >= HELD:
                    break
        except Wrong as e:
            row |= {"side": "remote", "reason": f"the small model failed: {e.message[:120]}", "fell_back": "local"}
            return None
        row["need"], row["reason"] = doubt(probs, "".join(p.text for p in held))
        row["side"] = "remote" if row["need"] > threshold else "local"
        if row["side"] == "remote":
            await stream.aclose()
            return None
        return held, stream

    async def _answered(self, body, row, sides, held):
        order = [row["side"], "local" if row["side"] == "remote" else "remote"]
        if row["reason"] == "forced":
            order = order[:1]
        for at, side in enumerate(order):
            total = sides.setdefault(side, Total())
            stream = self._held(*held) if held and side == "local" else self._timed(getattr(self, side).pieces(body, total), side)
            begun, text = False, ""
            try:
                async for piece in stream:
                    if not begun:
                        row["side"] = side
                        yield row
                        begun = True
                    text += piece.text
                    yield piece
                sides[side].text = text
                return
            except Wrong as e:
                if begun or at + 1 == len(order) or (e.status < 500 and e.status not in (408, 429) and e.code != "context_length_exceeded"):
                    raise
                row |= {"fell_back": side, "reason": f"{side} failed: {e.message[:160]}"}

    async def _held(self, held, stream):
        for piece in held:
            yield piece
        async for piece in stream:
            yield piece

    async def _timed(self, stream, side):
        """The large model's first piece must come within the cap."""
        async with contextlib.aclosing(await http.started(stream, self.latency_s if side == "remote" else None)) as pieces:
            async for piece in pieces:
                yield piece

    def _done(self, body, row, sides):
        self.counts[row["side"]] = self.counts.get(row["side"], 0) + 1
        if row["fell_back"]:
            self.counts["fell_back"] = self.counts.get("fell_back", 0) + 1
        for side, total in sides.items():
            self.spent[side] += total.usd
        self._fill(row, sides)
        if random.random() < self.shadow and not self._broke():
            task = asyncio.ensure_future(self._shadowed(body, row, sides))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            self.log.write(row)

    async def _shadowed(self, body, row, sides):
        """The other side's answer, for the log alone."""
        other = "local" if row["side"] == "remote" else "remote"
        total = Total()
        with contextlib.suppress(Wrong):
            probs, text = [], ""
            async for piece in getattr(self, other).pieces(body, total):
                text += piece.text
                probs += [piece.logprob] if piece.logprob is not None else []
            total.text = text
            sides[other] = total
            self.spent[other] += total.usd
            if row["need"] is None and other == "local":
                row["need"], _ = doubt(probs[:HELD], text)
        self._fill(row, sides)
        self.log.write(row)

    def _fill(self, row, sides):
        for side, total in sides.items():
            row[side] = {"usd": total.usd, "joules": total.joules, "prompt_tokens": total.prompt, "tokens": total.written, "ttft_s": total.ttft,
                         "seconds": total.seconds, "text": getattr(total, "text", None)}  # fmt: skip
