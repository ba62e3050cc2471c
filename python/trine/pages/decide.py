"""`trine decide`: one page where audit, estimates, cost and benchmark are seen together and sliders move the answer.

Each call gives what `trine tco --json` (audit, estimate, bench) prints for the sliders' values. What takes long, the times of a
batch and a context, is done once for each pair, the pair asked for first, the others while the page is open.
"""

import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

from trine.command import OK, OUTSIDE, USAGE, Stop
from trine.decide import bench, tco, tco_report
from trine.decide.paper import saved, write
from trine.decide.prices import Prices, read
from trine.pages import shell
from trine.pages.server import Bad, Server, serve_until_interrupted

FACTORS = (0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
UTILISATIONS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
BATCHES = (1, 4, 8, 16, 32, 64)
CONTEXTS = (256, 512, 1024, 2048, 4096, 8192)
DRAWS = 4000


def with_value(steps, value):
    return sorted({*steps, value})


def sliders(asked):
    """[{name, title, unit, steps, at}]: each a row of steps with the asked value among them."""
    day = asked.tokens_per_day
    return [
        {"name": "tokens", "title": "tokens a day", "kind": "count", "steps": with_value([day * f for f in (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.5, 2, 3, 5, 10, 30, 100)], day), "at": day},
        {"name": "utilisation", "title": "utilisation", "kind": "percent", "steps": list(UTILISATIONS), "at": 0.6},
        {"name": "neuron_price", "title": "Neuron's price, of list", "kind": "percent", "steps": list(FACTORS), "at": 1.0},
        {"name": "peer_price", "title": "others' price, of list", "kind": "percent", "steps": list(FACTORS), "at": 1.0},
        {"name": "batch", "title": "batch", "kind": "count", "steps": with_value(BATCHES, asked.batch), "at": asked.batch},
        {"name": "context", "title": "context, tokens", "kind": "count", "steps": with_value(CONTEXTS, asked.context), "at": asked.context},
    ]  # fmt: skip


class Ahead:
    """Times of pairs (batch, context), made one after another in a thread: those asked for before those that may be."""

    def __init__(self, make, pairs):
        self.make, self.waiting, self.ready, self.failed = make, list(pairs), {}, {}
        self.change = threading.Condition()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self):
        while True:
            with self.change:
                while not self.waiting:
                    self.change.wait()
                pair = self.waiting.pop(0)
            made = why = None
            try:
                if pair not in self.ready:
                    made = self.make(*pair)
            except Exception as e:  # of this pair alone
                why = str(e)
            with self.change:
                if made is not None:
                    self.ready[pair] = made
                if why:
                    self.failed[pair] = why
                self.change.notify_all()

    def get(self, pair, patience_s):
        """The times of a pair, or None where they are not made within so many seconds; raises where there are none."""
        with self.change:
            if pair not in self.ready and pair not in self.failed:
                self.waiting = [pair, *(p for p in self.waiting if p != pair)]
                self.change.notify_all()
            self.change.wait_for(lambda: pair in self.ready or pair in self.failed, patience_s)
            if pair in self.failed:
                raise Bad(self.failed[pair])
            return self.ready.get(pair)


class Decision:
    """What the page may ask."""

    def __init__(self, asked):
        self.asked, self.prices = asked, Prices(asked.trine, asked.prices)
        self.audit = self.audited()
        self.given_bench = read(asked.bench) if asked.bench else None
        if self.given_bench and self.given_bench.get("kind") != "bench":
            raise Stop(USAGE, f"{asked.bench}: found kind {self.given_bench.get('kind')!r}, expected what `trine bench --json` prints")
        self.sliders = sliders(asked)
        self.steps = {s["name"]: s["steps"] for s in self.sliders}
        start = (asked.batch, asked.context)
        near = sorted(((b, c) for b in self.steps["batch"] for c in self.steps["context"]), key=lambda p: self.distance(p, start))
        self.ahead = Ahead(self.timed, near[1 : 1 + asked.ahead])
        self.ahead.ready[start] = self.timed(*start)
        self.benched, self.answers = {}, {}

    def distance(self, pair, start):
        return sum(abs(self.steps[n].index(v) - self.steps[n].index(s)) for n, v, s in zip(("batch", "context"), pair, start, strict=True))

    def audited(self):
        path = self.asked.audit
        if not path:
            return None
        if path.endswith(".json") and Path(path).is_file():
            return read(path)
        from trine.decide import audit
        from trine.decide.audit import report

        if not Path(path).exists():
            raise Stop(USAGE, f"found no {path}, expected a project's folder or what `trine audit --json` printed")
        return report.as_dict(audit.audit(path), None)

    def asked_for(self, batch, context, **values):
        """The options of `trine tco` that these sliders mean."""
        a = self.asked
        output = max(1, context // 8)
        base = {"config": a.config, "months": a.months, "batch": batch, "prompt": context - output, "output": output, "seq": context, "duty": 1.0, "no_autoscale": None,
                "p99_ms": None, "tp": None, "machines": a.machines, "against": a.against, "purchase": a.purchase, "basis": None, "baseline": a.baseline, "speeds": a.speeds,
                "audit": a.audit, "draws": DRAWS, "seed": 0, "tokens_per_day": a.tokens_per_day, "utilisation": None, "neuron_price": 1.0, "peer_price": 1.0,
                "train": None}  # fmt: skip
        return SimpleNamespace(**{**base, **values})

    def timed(self, batch, context):
        return tco.timed(self.asked_for(batch, context), self.prices)

    def read(self, query):
        values = {}
        for name, steps in self.steps.items():
            at = next(s["at"] for s in self.sliders if s["name"] == name)
            values[name] = query.real(name, min(steps), max(steps), at)
        for name in ("batch", "context"):
            if values[name] not in self.steps[name]:
                raise Bad(f"{name}: found {values[name]:g}, expected one of {', '.join(str(s) for s in self.steps[name])}")
            values[name] = int(values[name])
        return values

    def answer(self, values, patience_s=20):
        """{report, words, estimates}, or {waits} while a batch and context are being timed."""
        key = tuple(values.values())
        if key in self.answers:
            return self.answers[key]
        speeds = self.ahead.get((values["batch"], values["context"]), patience_s)
        if speeds is None:
            return {"waits": f"timing batch {values['batch']}, context {values['context']}"}
        # The likely utilisation keeps its band, as the command's does where none is given.
        own = values["utilisation"] if values["utilisation"] != 0.6 else None
        wanted = self.asked_for(values["batch"], values["context"], tokens_per_day=values["tokens"], utilisation=own, neuron_price=values["neuron_price"], peer_price=values["peer_price"])
        report = tco.study(wanted, self.prices, speeds, self.audit)[0]
        words = {"title": tco_report.title(report), "answer": tco_report.answer(report), "flips": [tco_report.sentence(p) for p in report["break_even"]]}
        made = {"report": report, "words": words, "estimates": [e for speed, _, _ in speeds[1].values() if speed for e in speed.estimates]}
        if len(self.answers) > 2000:
            self.answers.clear()
        self.answers[key] = made
        return made

    def tco(self, query):
        return self.answer(self.read(query))

    def start(self, _=None):
        return {"version": 1, "kind": "decide", "title": f"Move {self.asked.config} to Trainium?", "months": self.asked.months, "sliders": self.sliders, "audit": self.audit,
                "ready": [list(p) for p in self.ahead.ready]}  # fmt: skip

    def bench(self, _=None):
        """The given benchmark, or chip time of the cheapest of Neuron's that was weighed."""
        if self.given_bench:
            return self.given_bench
        first = self.answer({s["name"]: s["at"] for s in self.sliders}, 600)["report"]
        ours = (first["compared"] or [None])[0]
        if not ours:
            return {"version": 1, "kind": "bench"}
        if ours not in self.benched:
            estimates = [e for e in self.answer({s["name"]: s["at"] for s in self.sliders})["estimates"] if e["instance"] == ours]
            if not estimates:
                return {"version": 1, "kind": "bench"}
            e = estimates[0]
            wanted = SimpleNamespace(config=self.asked.config, instance=ours, phase=e["phase"], batch=e["batch"], seq=e["seq"], tp=e["tp"], nodes=2, slo_ms=None, requests=20000, seed=0,
                                     burst=64, bytes_per_request=2000)  # fmt: skip
            self.benched[ours] = {"version": 1, "kind": "bench", "chip": bench.chip_report(wanted, self.prices)}
        return self.benched[ours]

    def calls(self):
        return {"/api/start": self.start, "/api/tco": self.tco, "/api/bench": self.bench}

    def stored(self):
        """For one file: the start, and each slider moved alone, over the batches and contexts that are timed."""
        at = {s["name"]: s["at"] for s in self.sliders}
        moves = [at] + [{**at, s["name"]: v} for s in self.sliders for v in s["steps"] if s["name"] not in ("batch", "context") or (v == s["at"])]
        out = {"/api/start": self.start(), "/api/bench": self.bench()}
        for values in moves:
            out[address(values)] = self.answer(values, 600)
        return out


def number(value):
    """As JavaScript writes it."""
    return str(int(value)) if value == int(value) else repr(float(value))


def address(values):
    return "/api/tco?" + "&".join(f"{name}={number(v)}" for name, v in values.items())


def server(decision, host="127.0.0.1", port=0, token=None):
    return Server({"/": shell.live(decision.start()["title"], "decide")}, shell.files(), decision.calls(), host, port, token)


def run(asked):
    if not asked.config:
        raise Stop(USAGE, "--config is missing: a config.json, a GGUF file or a name such as llama-3-8b")
    decision = Decision(asked)
    if asked.json:
        print(json.dumps({**decision.start(), **decision.answer({s["name"]: s["at"] for s in decision.sliders})}, indent=2))
        return OK
    if asked.html:
        made = shell.one_file(decision.start()["title"], "decide", decision.stored())
        return OK if saved(asked.html, lambda path: write(path, made)) else OUTSIDE
    decision.ahead.thread.start()
    code = serve_until_interrupted(server(decision, asked.host, asked.port), bool(asked.open))
    sys.stdout.flush()
    os._exit(code)  # a pair may still be timed in C++, which the interpreter's own end would not survive
