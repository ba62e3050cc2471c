"""Faults that `trine bench --faults` brings about in what runs here, under load: a process that is killed, a link that is slow,
a core that is throttled. Everything is in host time.

A function runs in copies, processes of their own that are started anew where one dies; a server that was started here is
killed and started anew; in front of a server that runs already stands a proxy, and its process is only ever throttled.
"""

import contextlib
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import numpy

from trine.command import UNSUPPORTED, Stop, note
from trine.decide import bench_load as load
from trine.decide.bench_target import TIMEOUT_S

DELAY_S, RATE = 0.05, 1e6  # of a slow link: more each way, and bytes a second; as a congested one to another region
PERIOD_S = 0.02  # of which a throttled process runs half
SHARE = 0.5  # of capacity that is offered meanwhile
LEAST = 120  # requests of a run, so that there are windows to compare
LOST, SLOW, THROTTLED = "node lost", "link slow", "core throttled to half"


class Copies:
    """A function in processes of its own; one that died is started anew at once, as a supervisor would."""

    def __init__(self, path, name, count):
        self.words = [sys.executable, "-m", "trine.decide.bench_copy", path, name]
        self.free, self.all, self.ended = queue.Queue(), [], False
        for _ in range(count):
            self._start()

    def _start(self):
        made = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.all.append(made)
        line = made.stdout.readline().strip()
        if line != "ready" and not self.ended:
            raise Stop(UNSUPPORTED, line.removeprefix("! ") or "the copy of the function ended while it was loaded")
        self.free.put(made)

    def __call__(self):
        copy = self.free.get(timeout=TIMEOUT_S)
        try:
            copy.stdin.write("\n")
            copy.stdin.flush()
            answer = copy.stdout.readline().strip()
        except (OSError, ValueError):
            answer = ""
        if not answer:
            self.all.remove(copy)
            with contextlib.suppress(subprocess.TimeoutExpired):
                copy.wait(5)
            threading.Thread(target=self._again, daemon=True).start()
            raise OSError("the process that computed it was lost")
        self.free.put(copy)
        if answer != "done":
            raise OSError(answer.removeprefix("! "))

    def _again(self):
        with contextlib.suppress(Stop):
            self._start()

    def kill(self):
        self.all[0].kill()

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.all[0].pid, number)

    def close(self):
        self.ended = True
        for copy in list(self.all):
            copy.kill()
            copy.wait()


class Proxy:
    """Between us and a server: passes bytes on, later and more slowly where it is told so; or cuts and refuses all."""

    def __init__(self, url):
        split = urllib.parse.urlsplit(url)
        self.to = (split.hostname, split.port or 80)
        self.delay, self.rate, self.is_cut, self.ended, self.open = 0.0, 0.0, False, False, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.ended:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(here,), daemon=True).start()

    def _join(self, here):
        if self.is_cut:
            return here.close()
        try:
            there = socket.create_connection(self.to, 10)
        except OSError:
            return here.close()
        pair = (here, there)
        self.open.add(pair)
        try:
            self._pass(here, there)
        except OSError:
            pass  # one of the two has closed it: the other is told below
        self.open.discard(pair)
        for end in pair:
            end.close()

    def _pass(self, here, there):
        ends, last = {here: there, there: here}, None
        while ends and not self.is_cut:
            for end in select.select(list(ends), [], [], 0.05)[0]:
                data = end.recv(1 << 16)
                if not data:
                    with contextlib.suppress(OSError):
                        ends.pop(end).shutdown(socket.SHUT_WR)
                    continue
                # The link's delay is that of a turn of the conversation, not of each piece of what is streamed.
                wait = (self.delay if end is not last else 0.0) + (len(data) / self.rate if self.rate else 0.0)
                last = end
                if wait:
                    time.sleep(wait)
                (there if end is here else here).sendall(data)

    def cut(self):
        self.is_cut = True
        for pair in list(self.open):
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.ended = True
        self.listener.close()
        self.cut()


@contextlib.contextmanager
def throttled(send):
    """Half of each period the process is stopped. `send` takes a signal's number."""
    ended = threading.Event()

    def alternate():
        while not ended.is_set():
            send(signal.SIGSTOP)
            time.sleep(PERIOD_S / 2)
            send(signal.SIGCONT)
            time.sleep(PERIOD_S / 2)

    thread = threading.Thread(target=alternate, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        send(signal.SIGCONT)


@contextlib.contextmanager
def slowed(proxy):
    proxy.delay, proxy.rate = DELAY_S, RATE
    try:
        yield
    finally:
        proxy.delay, proxy.rate = 0.0, 0.0


@contextlib.contextmanager
def cut(proxy):
    proxy.cut()
    try:
        yield
    finally:
        proxy.is_cut = False


@contextlib.contextmanager
def killed(copies):
    """A copy: it is missed by the next call of it, and started anew."""
    copies.kill()
    yield


@contextlib.contextmanager
def started_anew(server):
    """A server that was started here; gives how long it was away, which is how long it takes to start."""
    server.kill()
    yield server.start()


def struck(call, fault, capacity, workers, seconds, seed):
    """Load from a while before the fault to a while after it, and what of it was lost or late."""
    rate = SHARE * capacity
    count = max(LEAST, int(3 * seconds * rate))
    times = load.arrivals(count, rate, seed)
    begin, end = float(times[count // 3]), float(times[2 * count // 3])
    origin, over, wrong = time.perf_counter(), [], []

    def strike():
        time.sleep(max(0.0, origin + begin - time.perf_counter()))
        try:
            with fault() as repaired:  # seconds, where it was repaired at once and not at the end
                over.append(repaired)
                time.sleep(max(0.0, origin + end - time.perf_counter()))
        except Exception as e:  # of the fault, not of a request: told to who asked for it
            wrong.append(e)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    took, _, errors = load.run_open(call, times, workers)
    thread.join()
    if wrong:
        raise wrong[0]
    took = numpy.array(took)
    meanwhile = load.summary(took[(times >= begin) & (times < end)])
    return {"offered_per_s": rate, "requests": count, "lost": len(errors), "errors": sorted(set(errors))[:3],
            "repaired_after_s": end - begin if over[0] is None else over[0], "seen_to_s": float(times[-1]) - begin,
            "p99_ms_while": meanwhile.get("p99_ms") or meanwhile.get("max_ms"), "recovered_after_s": load.recovery(times, took, begin, max(5, count // 60))}  # fmt: skip


def faults_of(target, asked):
    """(what is called, {name: a context that brings the fault about, or why it is not tried}, what to close)."""
    if target.kind == "function":
        copies = Copies(target.path, target.name, asked.workers)
        tried = {LOST: lambda: killed(copies), SLOW: "a function is called on this machine: nothing crosses a link", THROTTLED: lambda: throttled(copies.signal)}
        return copies, tried, copies
    if target.url.startswith("https:"):
        why = "nothing can be put between TLS and its server"
        return target, {LOST: why, SLOW: why, THROTTLED: of_process(target, asked)}, None
    proxy = Proxy(target.url)
    target.via = proxy.address
    tried = {LOST: lambda: cut(proxy), SLOW: lambda: slowed(proxy), THROTTLED: of_process(target, asked)}
    if hasattr(target, "start"):
        tried[LOST] = lambda: started_anew(target)
    return target, tried, proxy


def of_process(target, asked):
    """A fault of the server's process: of the one that was started here, or that was named."""
    if hasattr(target, "signal"):
        return lambda: throttled(target.signal)
    if not asked.pid:
        return "its process is not known: --pid N names it"
    return lambda: throttled(lambda number: os.kill(asked.pid, number))


def failures(target, asked, capacity):
    """{fault: what was lost and when it was over, or {"not_tried": why}}."""
    if asked.pid:
        try:
            os.kill(asked.pid, 0)
        except OSError as e:
            raise Stop(UNSUPPORTED, f"--pid {asked.pid}: {e.strerror}; expected a process of this user") from None
    call, tried, ends = faults_of(target, asked)
    out = {}
    try:
        for name, fault in tried.items():
            if isinstance(fault, str):
                out[name] = {"not_tried": fault}
                continue
            note(f"fault: {name}")
            seconds = max(asked.seconds, 1.5 * target.load_s) if name == LOST else asked.seconds  # in which it can be there again
            out[name] = struck(call, fault, capacity, asked.workers, seconds, asked.seed)
    finally:
        if ends:
            ends.close()
        if target.kind == "server":
            target.via = None
    return out
