"""`trine serve --clock chip`: the server and its scheduler without weights. A step lasts what the timer says, in wall time.

Tokens are stand-ins and say so; counts, times, prices, limits and errors are as with weights. Any decoder of the zoo can be
stood in for, and all copies that the instance holds serve.
"""

import importlib.util
import queue
import threading
import types
import zlib
from pathlib import Path

from trine.command import UNSUPPORTED, Stop
from trine.serve import opening

WORDS = " There are no weights here: these words stand in for an answer."
PLAIN_CONTEXT = 8192  # of a configuration that names none


class Copies:
    """Several engines behind the protocol of one: a request goes to the copy with the fewest, a session's always to the same.

    A request's number is its number in the engine times the copies, plus the engine's place.
    """

    def __init__(self, engines):
        self.engines = engines
        self.open = [0] * len(engines)  # requests on each
        self.left = {}  # number: choices that have not ended
        self._lock, self._events = threading.Lock(), queue.SimpleQueue()
        self._closing = False
        self._threads = [threading.Thread(target=self._pump, args=(at,), name=f"copy-{at}", daemon=True) for at in range(len(engines))]
        for thread in self._threads:
            thread.start()

    def _pump(self, at):
        while not self._closing:
            events = self.engines[at].wait(0.2)
            for event in events:
                event["id"] = event["id"] * len(self.engines) + at
                if event["kind"] == "finished":
                    self._ended(event["id"], at, event["reason"])
            if events:
                self._events.put(events)

    def _ended(self, number, at, reason):
        with self._lock:
            if number in self.left:
                self.left[number] -= 1 if reason in ("stop", "length") else self.left[number]  # else its other choices may never begin
                if not self.left[number]:
                    del self.left[number]
                    self.open[at] -= 1

    def _place(self, session):
        return zlib.crc32(session.encode()) % len(self.engines) if session else self.open.index(min(self.open))

    def add(self, request):
        with self._lock:  # until it is counted no event of it is taken in
            at = self._place(request.get("session"))
            number = self.engines[at].add(request) * len(self.engines) + at
            self.left[number] = 1 if request.get("embed") else request.get("n", 1)
            self.open[at] += 1
        return number

    def _of(self, number):
        return self.engines[number % len(self.engines)], number // len(self.engines)

    def cancel(self, number):
        engine, inner = self._of(number)
        engine.cancel(inner)

    def mask(self, number, choice, bits):
        engine, inner = self._of(number)
        engine.mask(inner, choice, bits)

    def wait(self, timeout):
        try:
            out = self._events.get(timeout=timeout)
            while not self._events.empty():
                out += self._events.get_nowait()
            return out
        except queue.Empty:
            return []

    def stats(self):
        """Sums over the copies."""
        rows = [engine.stats() for engine in self.engines]
        return {name: sum(row[name] for row in rows) for name in rows[0]}

    def load_adapter(self, name, tensors, scale):
        self.engines[0].load_adapter(name, tensors, scale)

    def drop_session(self, name):
        self.engines[self._place(name)].drop_session(name)

    def stop(self):
        self._closing = True
        for engine in self.engines:
            engine.stop()
        for thread in self._threads:
            thread.join(5)


def text_of(typed, given):
    """(the tokenizer, what it is called): the one that is given, the model's own, SmolLM2's, or one byte a token."""
    from trine.serve import text as texts

    try:
        if given:
            path = opening.find(given)[0] if given in opening.KNOWN else Path(given).expanduser()
            return texts.load(path), str(given)
        path = Path(typed).expanduser()
        if path.is_file() and path.suffix == ".gguf" or (path / "tokenizer.json").exists():
            return texts.load(path), "the model's"
    except Exception as e:  # the tokenizers library has one type of its own for all
        raise Stop(UNSUPPORTED, f"{given or typed}: no tokenizer that can be read: {e}") from None
    if importlib.util.find_spec(opening.KNOWN["smollm2"][0]):
        return texts.load(opening.find("smollm2")[0]), "SmolLM2's"
    return texts.of_bytes(), "one byte a token"


def config_of(typed):
    from trine import models

    return models.load_config("smollm2-135m" if typed in opening.KNOWN else Path(typed).expanduser())


def name_of(typed):
    path = Path(typed)
    return (path.resolve().parent.name if path.name == "config.json" else path.stem if path.suffix in (".gguf", ".json") else path.name).lower()


def open_virtual(typed, instance, tp=1, name=None, context=None, batch=None, pages=None, speed=1.0, copies=None, tokenizer=None, answer_tokens=128,
                 chunk=None):  # fmt: skip
    """An Opened whose engine computes nothing; `facts` says so."""
    typed = typed or "smollm2"
    from trine._core import serve
    from trine.models import ConfigError
    from trine.profile import served
    from trine.serve.cost import positions, table
    from trine.serve.twin import scheduler_of

    try:
        config = config_of(typed)
        text, whose = text_of(typed, tokenizer)  # before the table, which takes a minute when nothing is cached
        cost = table(config, instance, tp)
    except (ConfigError, ValueError) as e:
        raise Stop(UNSUPPORTED, str(e)) from None
    limit = positions(config) or PLAIN_CONTEXT
    limit = min(context or limit, limit)
    options = scheduler_of(cost) | {"context": limit, "pace": float(speed), "answer_tokens": float(answer_tokens),
                                    "stand_in": text.encode(WORDS, add_special=False), "about": served.about(name or name_of(typed), config, instance, tp)}  # fmt: skip
    options |= {name: value for name, value in (("running_most", batch), ("pages", pages), ("chunk", chunk)) if value}
    model = types.SimpleNamespace(shape={"vocab": text.size, "context": limit, "width": 64}, cost=cost, eos=text.ends, id=0)
    count = copies or cost["copies"]
    try:
        engines = [serve.Engine(model, options | {"device": at * tp}) for at in range(count)]
    except ValueError as e:
        raise Stop(UNSUPPORTED, f"{typed}: {e}") from None
    facts = {"stand_in": True, "tokenizer": whose, "copies": count, "speed": float(speed), "instance": instance, "tp": tp}
    own = name_of(typed)
    return opening.Opened(name or own, (own,) if name and name != own else (), Path(typed), text, engines[0] if count == 1 else Copies(engines),
                          model, limit, instance, facts)  # fmt: skip
