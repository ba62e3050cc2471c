"""Between the event loop and the engine: one thread waits for the engine's events and hands each to its request.

Masks are computed on threads of their own, so that a slow grammar holds up nobody else. A request whose client has gone
is cancelled.
"""

import asyncio
import concurrent.futures
import secrets
import threading
import time

from trine.serve.errors import Wrong
from trine.serve.text import Stream


class Choice:
    """One answer of a request as it grows."""

    def __init__(self, stream, matcher):
        self.stream, self.matcher = stream, matcher
        self.tokens, self.text, self.logprobs = [], "", []
        self.reason = self.stop = None
        self.end = {}  # the engine's last event


class Run:
    """A request on its way: `async for piece in run` gives dicts {choice, text, token?, logprob?, top?} and at each choice's
    end {choice, text, reason}. Then `choices`, `usage()` and `trine()` say what came out."""

    def __init__(self, desk, job, number, matchers):
        self.desk, self.job, self.number = desk, job, number
        self.queue = asyncio.Queue()
        self.choices = [Choice(Stream(desk.text, job.stops, job.special), m) for m in matchers]
        self.cached, self.prompt_logprobs, self.values = 0, None, None
        self.began, self.first_at, self.last_at = time.monotonic(), None, None
        self.done = False

    async def __aiter__(self):
        try:
            open_choices = len(self.choices)
            while open_choices:
                event = await self.queue.get()
                for piece in self._taken(event):
                    yield piece
                    open_choices -= "reason" in piece
            self.done = True
        finally:
            self.desk.leave(self)

    async def all(self):
        async for _ in self:
            pass
        return self

    async def embedding(self):
        try:
            while True:
                event = await self.queue.get()
                if event["kind"] == "error":
                    raise Wrong(event["message"], event.get("status", 500))
                if event["kind"] == "embedding":
                    self.values = event["values"]
                elif event["kind"] == "finished":
                    self.choices[0].end = event
                else:
                    continue
                if self.values is not None:
                    self.done = True
                    return self.values
        finally:
            self.desk.leave(self)

    def _taken(self, event):
        kind = event["kind"]
        if kind == "error":
            raise Wrong(event["message"], event.get("status", 500))
        if kind == "prompt":
            self.cached, self.prompt_logprobs = event.get("cached_tokens", 0), event.get("logprobs")
        elif kind == "token":
            yield from self._token(event)
        elif kind == "finished":
            yield from self._finished(event)

    def _token(self, event):
        self.last_at = time.monotonic()
        self.first_at = self.first_at or self.last_at
        at = event.get("choice", 0)
        choice = self.choices[at]
        if choice.reason:  # a stop string was found before
            return
        choice.tokens.append(event["token"])
        choice.logprobs.append((event["token"], event.get("logprob"), event.get("top") or []))
        is_end = event["token"] in self.desk.ends and not self.job.sampling.get("ignore_eos")
        shown = "" if is_end and not self.job.special else choice.stream.push(event["token"])
        choice.text += shown
        yield {"choice": at, "text": shown, "token": event["token"], "logprob": event.get("logprob"), "top": event.get("top") or []}
        if choice.stream.stopped is not None:
            choice.reason, choice.stop = "stop", choice.stream.stopped
            if all(c.reason for c in self.choices):
                self.desk.cancel(self.number)

    def _finished(self, event):
        at = event.get("choice", 0)
        choice = self.choices[at]
        choice.end = event
        reason = event["reason"]
        if choice.reason is None:
            if reason == "error":
                raise Wrong(event.get("message") or "the engine failed on this request", 500)
            if reason == "deadline":
                raise Wrong("the request took longer than its time limit", 504, code="timeout")
            tail = choice.stream.end()
            choice.text += tail
            choice.reason = "stop" if choice.stream.stopped is not None else reason
            choice.stop = choice.stream.stopped
        else:
            tail = ""
        yield {"choice": at, "text": tail, "reason": choice.reason}

    def usage(self):
        written = sum(len(c.tokens) for c in self.choices)
        return len(self.job.prompt), written, self.cached

    def usd(self):
        return sum(float(c.end.get("usd") or 0.0) for c in self.choices)

    def trine(self):
        """Both clocks, energy and money of this request."""
        ends = [c.end for c in self.choices if c.end]
        out = self.desk.about | {"instance": self.desk.instance, "joules": sum(float(e.get("joules") or 0) for e in ends), "usd": self.usd()}
        if drafted := sum(e["usage"]["drafted_tokens"] for e in ends if "usage" in e):
            out |= {"drafted_tokens": drafted, "accepted_tokens": sum(e["usage"]["accepted_tokens"] for e in ends)}
        for e in ends[:1]:
            out |= {clock: times for clock, times in (e.get("times") or {}).items()}
        return out


class Desk:
    def __init__(self, engine, text, grammars, instance, on_done=None):
        self.engine, self.text, self.grammars, self.instance = engine, text, grammars, instance
        self.ends = set(text.ends)
        self.on_done = on_done or (lambda run: None)
        self.runs = {}
        self.time_limit = 600.0  # seconds of a request
        self.about = {}  # of every answer, beside its times
        self._masks = concurrent.futures.ThreadPoolExecutor(2, "mask")
        self.work = concurrent.futures.ThreadPoolExecutor(2, "text")  # tokenizing, compiling grammars
        self._closing = False
        self._loop = None
        self._thread = None

    def start(self):
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._pump, name="engine-events", daemon=True)
        self._thread.start()

    async def stop(self):
        self._closing = True
        for number in list(self.runs):
            self.cancel(number)
        await asyncio.to_thread(self._thread.join, 10)
        self.engine.stop()
        self._masks.shutdown(cancel_futures=True)
        self.work.shutdown(cancel_futures=True)

    async def off_loop(self, call, *args):
        return await asyncio.get_running_loop().run_in_executor(self.work, call, *args)

    async def submit(self, job):
        """A Run; its client's disappearance is noticed by closing the iteration."""
        matchers = [None] * job.choices
        if job.grammar:
            try:
                made = [self.off_loop(self.grammars.matcher, job.grammar) for _ in matchers]
                matchers = await asyncio.wait_for(asyncio.gather(*made), 20)
            except TimeoutError:
                raise Wrong("the schema or grammar takes too long to compile", 400, "response_format", "invalid_json_schema") from None
        request = {"prompt": job.prompt, "key": job.key, "adapter": job.adapter, "session": job.session, "embed": job.embed,
                   "constrained": bool(job.grammar)}  # fmt: skip
        request |= {name: value for name, value in job.sampling.items() if value is not None}
        request["stop_tokens"] = [*request.get("stop_tokens", []), *(() if request.get("ignore_eos") else self.text.ends)]
        if request.get("seed") is None:
            request["seed"] = secrets.randbits(62)
        limit = self.time_limit
        request["deadline_s"] = min(request.get("deadline_s") or limit, limit)
        try:
            number = self.engine.add(request)
        except (ValueError, RuntimeError, TypeError) as e:
            status = 503 if "full" in str(e) else 400
            raise Wrong(str(e), status, headers={"Retry-After": "1"} if status == 503 else {}) from None
        run = Run(self, job, number, matchers)  # events are given out on this thread, so none is missed
        self.runs[number] = run
        return run

    def cancel(self, number):
        self.engine.cancel(number)

    def leave(self, run):
        """Whoever read the run is gone."""
        if self.runs.pop(run.number, None) is not None:
            if not run.done:
                self.cancel(run.number)
            self.on_done(run)

    def _pump(self):
        while not self._closing:
            try:
                events = self.engine.wait(0.2)
            except Exception as e:
                self._loop.call_soon_threadsafe(self._broken, e)
                return
            if events and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._dispatch, events)

    def _broken(self, error):
        for run in self.runs.values():
            run.queue.put_nowait({"kind": "error", "message": f"the engine stopped: {error}"})

    def _dispatch(self, events):
        for event in events:
            run = self.runs.get(event["id"])
            if run is not None:  # else its client has left
                self._give(run, event)

    def _give(self, run, event):
        if event["kind"] == "mask":
            self._masks.submit(self._mask, run, event)
        else:
            run.queue.put_nowait(event)

    def _mask(self, run, event):
        at = event.get("choice", 0)
        try:
            bits = run.choices[at].matcher.mask(event["tokens"])
            self.engine.mask(run.number, at, bits[: (self.text.size + 7) // 8])
        except Exception as e:
            status = e.status if isinstance(e, Wrong) else 500
            self._loop.call_soon_threadsafe(run.queue.put_nowait, {"kind": "error", "message": str(e), "status": status})
            self.cancel(run.number)
