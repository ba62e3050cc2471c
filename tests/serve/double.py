"""A stand-in for the engine, by the same protocol: answers are a function of the tokens so far and the seed, nothing else.

It samples at random among what a mask allows, which is the hardest writer a grammar can meet.
"""

import hashlib
import random
import threading
import time

import numpy as np

USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "drafted_tokens": 0, "accepted_tokens": 0}  # as the engine names them


class Double:
    def __init__(self, text, pace=0.0, wild=True):
        self.text, self.pace, self.wild = text, pace, wild
        self.requests, self.events, self.next = {}, [], 0
        self.changed = threading.Condition()
        self.closing = False
        self.seen, self.adapters, self.sessions = set(), {}, {}
        self.hold = 0.0  # seconds before a request's first token
        self.script = None  # words to answer with, where a test wants certain ones
        self.counts = {"steps": 0, "cancelled": 0}
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def add(self, request):
        with self.changed:
            self.next += 1
            number = self.next
            if request.get("seed") is None:
                request["seed"] = number
            choices = [{"tokens": [], "mask": None, "asked": False, "done": False} for _ in range(request.get("n", 1))]
            self.requests[number] = {"request": request, "choices": choices, "began": time.monotonic()}
            prompt = tuple(request["prompt"])
            pages = [prompt[:n] for n in range(16, len(prompt) + 1, 16)] if len(prompt) < 4096 else []
            cached = max((len(p) for p in pages if p in self.seen), default=0)
            self.seen |= set(pages)
            logprobs = [(-1.0, [(prompt[i], -1.0)]) for i in range(1, len(prompt))] if request.get("prompt_logprobs", -1) >= 0 else None
            self._say({"kind": "prompt", "id": number, "cached_tokens": min(cached, len(prompt) - 1), "logprobs": logprobs})
            if request.get("embed"):
                draw = random.Random(str(prompt))
                values = [draw.gauss(0, 1) for _ in range(64)]
                self._say({"kind": "embedding", "id": number, "values": values})
                del self.requests[number]
            self.changed.notify_all()
            return number

    def cancel(self, number):
        with self.changed:
            one = self.requests.pop(number, None)
            if one:
                self.counts["cancelled"] += 1
                for at, choice in enumerate(one["choices"]):
                    if not choice["done"]:
                        self._finish(number, at, choice, "cancelled")

    def mask(self, number, choice, bits):
        with self.changed:
            if number in self.requests:
                self.requests[number]["choices"][choice]["mask"] = bits
                self.changed.notify_all()

    def wait(self, timeout):
        with self.changed:
            if not self.events:
                self.changed.wait(timeout)
            out, self.events = self.events, []
            return out

    def load_adapter(self, name, tensors, scale):
        self.adapters[name] = (tensors, scale)

    def drop_adapter(self, name):
        del self.adapters[name]

    def stats(self):
        with self.changed:
            return {"running": len(self.requests), "waiting": 0, "kv_pages_used": len(self.requests), "kv_pages_total": 256, "steps": self.counts["steps"], "host_s": 0.1, "chip_s": 0.01}

    def stop(self):
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.thread.join(5)

    def _say(self, event):
        self.events.append(event)
        self.changed.notify_all()

    def _finish(self, number, at, choice, reason):
        choice["done"] = True
        times = {"host": {"queue": 0.0, "ttft": 0.01, "total": 0.02}, "chip": {"queue": 0.0, "ttft": 0.001, "total": 0.002}}
        self._say({"kind": "finished", "id": number, "choice": at, "reason": reason, "usage": USAGE, "times": times, "joules": 0.5, "usd": 1e-6 * len(choice["tokens"])})

    def _loop(self):
        while not self.closing:
            with self.changed:
                moved = False
                for number, one in list(self.requests.items()):
                    if time.monotonic() - one["began"] < self.hold:
                        continue
                    for at, choice in enumerate(one["choices"]):
                        moved |= not choice["done"] and self._step(number, one["request"], at, choice)
                    if all(c["done"] for c in one["choices"]):
                        self.requests.pop(number, None)
                self.counts["steps"] += moved
                if not moved:
                    self.changed.wait(0.05)
            if moved and self.pace:
                time.sleep(self.pace)

    def _step(self, number, request, at, choice):
        if request.get("constrained") and choice["mask"] is None:
            if not choice["asked"]:
                choice["asked"] = True
                self._say({"kind": "mask", "id": number, "choice": at, "tokens": list(choice["tokens"])})
            return False
        token = self._pick(request, at, choice)
        choice["mask"], choice["asked"] = None, False
        choice["tokens"].append(token)
        top = [(token, -0.5), (17, -1.5)][: max(0, request.get("logprobs", -1))]
        self._say({"kind": "token", "id": number, "choice": at, "token": token, "logprob": -0.5, "top": top, "host_s": 0.01, "chip_s": 0.001})
        if token in request["stop_tokens"] and len(choice["tokens"]) >= request.get("min_tokens", 0):
            self._finish(number, at, choice, "stop")
        elif len(choice["tokens"]) >= request["max_tokens"]:
            self._finish(number, at, choice, "length")
        return True

    def _pick(self, request, at, choice):
        if choice["mask"] is not None:
            bits = choice["mask"]
            allowed = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: self.text.size]).tolist()
            assert allowed, "a mask without a token"
            ends = sorted(set(allowed) & set(request["stop_tokens"]))
            draw = self._draw(request, at, choice)
            if ends and draw.random() < 0.5:
                return ends[0]
            return draw.choice(allowed)
        if self.script is not None:
            words = self.text.encode(self.script, add_special=False) + [self.text.eos]
            return words[min(len(choice["tokens"]), len(words) - 1)]
        draw = self._draw(request, at, choice)
        if len(choice["tokens"]) >= 12 and not request.get("ignore_eos") and draw.random() < 0.2:
            return self.text.eos
        return draw.randrange(100, 5000)

    def _draw(self, request, at, choice):
        told = f"{request['seed']}:{at}:{len(request['prompt'])}:{request['prompt'][-8:]}:{choice['tokens']}"
        return random.Random(hashlib.sha256(told.encode()).digest())
