"""`trine batch`: a file of requests in, a file of answers out, each line exactly once.

The output file is the record: a line is done when it stands there whole. A run that was killed leaves at most one line
without its end, which is cut off; the next run computes what has no line. One process at a time, by a lock.
"""

import asyncio
import fcntl
import json
import os
import sys
import time
from pathlib import Path

from trine.command import CHECK_FAILED, OK, OUTSIDE, UNSUPPORTED, USAGE, Stop, note
from trine.serve import opening
from trine.serve.errors import Wrong, openai

PATHS = ("/v1/chat/completions", "/v1/completions")
SYNC_SECONDS = 1.0


def request_of(line, at, default_tokens):
    """(id, path, body) of one line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise Stop(UNSUPPORTED, f"line {at + 1} is no JSON: {e}") from None
    if not isinstance(row, dict):
        raise Stop(UNSUPPORTED, f"line {at + 1} is a {type(row).__name__}; expected an object")
    number = str(row.get("custom_id", row.get("id", f"line-{at + 1}")))
    if "body" in row:
        path, body = row.get("url", PATHS[0]), row["body"]
    else:
        path = PATHS[0] if "messages" in row else PATHS[1]
        body = {k: v for k, v in row.items() if k not in ("custom_id", "id")}
    if path not in PATHS or not isinstance(body, dict) or not ("messages" in body or "prompt" in body):
        raise Stop(UNSUPPORTED, f"line {at + 1}: expected {{custom_id, url, body}}, {{prompt}} or {{messages}}")
    body = {k: v for k, v in body.items() if k not in ("model", "stream")}  # one model, and it is given
    if "max_tokens" not in body and "max_completion_tokens" not in body:
        body["max_tokens"] = default_tokens
    return number, path, body


def read_requests(path, default_tokens):
    """All lines, checked before the first is computed."""
    seen, out = {}, []
    with open(path, encoding="utf-8", errors="replace") as file:
        for at, line in enumerate(file):
            if not line.strip():
                continue
            number, url, body = request_of(line, at, default_tokens)
            if number in seen:
                raise Stop(UNSUPPORTED, f"line {at + 1}: the id {number!r} was used in line {seen[number] + 1}")
            seen[number] = at
            out.append((number, url, body))
    if not out:
        raise Stop(UNSUPPORTED, f"{path} has no requests")
    return out


class Output:
    """The file of answers: appended to, a line at once, by one process."""

    def __init__(self, path):
        self.path = Path(path)
        self.file = open(self.path, "a+b")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Stop(OUTSIDE, f"{path} is being written by another process") from None
        self.done = self._read()
        self._synced = time.monotonic()

    def _read(self):
        """Ids that have their line; what follows the last line's end is cut off."""
        done, whole = set(), 0
        self.file.seek(0)
        for raw in self.file:
            if not raw.endswith(b"\n"):
                break
            whole += len(raw)
            try:
                done.add(str(json.loads(raw)["custom_id"]))
            except (ValueError, KeyError, TypeError):
                raise Stop(UNSUPPORTED, f"{self.path}: byte {whole - len(raw)} begins no line of `trine batch`; give another output") from None
        self.file.truncate(whole)
        self.file.seek(0, os.SEEK_END)
        return done

    def write(self, row):
        os.write(self.file.fileno(), (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
        self.done.add(row["custom_id"])
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self.file.fileno())
            self._synced = time.monotonic()

    def close(self):
        os.fsync(self.file.fileno())
        self.file.close()


class Progress:
    """Lines done and left, in both clocks; on stderr once a second."""

    def __init__(self, total, done, copies, stats):
        self.total, self.skipped, self.done, self.failed, self.copies = total, done, done, 0, copies
        self.began, self.stats, self.shown = time.monotonic(), stats, 0.0
        self.first = stats()
        self.usd = self.joules = 0.0

    def chip_s(self):
        """The engine's chip time is of one copy; the instance runs `copies` of them side by side."""
        return (self.stats().get("chip_s", 0.0) - self.first.get("chip_s", 0.0)) / self.copies

    def took(self, row, took):
        """Counts a line."""
        self.done += 1
        self.failed += row["response"]["status_code"] != 200
        self.usd, self.joules = self.usd + took.get("usd", 0.0), self.joules + took.get("joules", 0.0)
        self.show()

    def line(self):
        new, left = self.done - self.skipped, self.total - self.done
        host = time.monotonic() - self.began
        rate = new / host if host > 0 else 0
        eta = f"eta {clock(left / rate)} here, {clock(left * self.chip_s() / new)} on the chip" if new else "eta –"
        return f"  {self.done:,} of {self.total:,}  {rate:.1f} a second  {eta}"

    def show(self, last=False):
        now = time.monotonic()
        if last or now - self.shown > 1:
            self.shown = now
            end = "\r" if sys.stderr.isatty() and not last else "\n"
            print(self.line().ljust(78), end=end, file=sys.stderr, flush=True)


def clock(seconds):
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


async def answered(server, number, path, body):
    """(the line of one request, what it took). A request's own fault is its answer; a fault of ours is raised."""
    from trine.serve.tools import new_id
    from trine.serve.wire import chat, completions

    try:
        status, answer = 200, await {PATHS[0]: chat.answer, PATHS[1]: completions.answer}[path](server, body, server.keys.keys[0], True)
    except Wrong as wrong:
        if wrong.status >= 500 and wrong.status != 504:
            raise
        status, answer = wrong.status, openai(wrong)
    took = (answer.get("usage") or {}).get("trine") if status == 200 else None
    row = {"id": new_id("batch_req"), "custom_id": number, "response": {"status_code": status, "request_id": new_id("req"), "body": answer}, "error": None}
    return row, took if isinstance(took, dict) else {}


async def answer_all(server, requests, output, at_once, progress):
    """Answers what has no line yet."""
    waiting = iter([r for r in requests if r[0] not in output.done])

    async def worker():
        for request in waiting:
            row, took = await answered(server, *request)
            output.write(row)
            progress.took(row, took)

    tasks = [asyncio.ensure_future(worker()) for _ in range(at_once)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def copies_on(instance, tp):
    """How many copies of the model the instance's cores hold side by side."""
    from trine import _core

    found = _core.instance(instance)
    cores = found["cores"] * found.get("hosts", 1) // max(1, found.get("logical", 1))
    return max(1, cores // tp)


def report_of(asked, progress, copies, host):
    new = progress.done - progress.skipped
    return {"version": 1, "report": "batch", "requests": progress.total, "done_before": progress.skipped, "done_now": new, "failed": progress.failed,
            "host_s": host, "chip_s": progress.chip_s(), "instance": asked.instance, "copies": copies, "usd": progress.usd,
            "joules": progress.joules, "output": asked.output}  # fmt: skip


async def work(asked, server, requests, output, copies):
    progress = Progress(len(requests), len([r for r in requests if r[0] in output.done]), copies, server.stats)
    if progress.skipped and not asked.json:
        note(f"{progress.skipped:,} of {progress.total:,} lines are there already")
    began = time.monotonic()
    async with server.lifespan():
        await answer_all(server, requests, output, int(asked.at_once), progress)
        report = report_of(asked, progress, copies, time.monotonic() - began)
        progress.show(last=True)
    return report


def here(asked, requests, output):
    from trine.serve.command import server_of

    opened = opening.open_model(asked.model, asked.instance, int(asked.tp), options={"running_most": int(asked.at_once)})
    server = server_of(opened, None, [{"key": "in this process", "name": "batch"}])
    return asyncio.run(work(asked, server, requests, output, copies_on(asked.instance, int(asked.tp))))


def on_ray(asked, requests, output):
    from trine.serve import ray_batch

    return ray_batch.work(asked, requests, output)


def run(asked):
    if not asked.output:
        raise Stop(USAGE, "-o FILE says where the answers go")
    requests = read_requests(asked.words[0], int(asked.max_tokens))
    output = Output(asked.output)
    try:
        report = on_ray(asked, requests, output) if asked.ray else here(asked, requests, output)
    except Wrong as e:
        raise Stop(OUTSIDE, f"{e.message}; what is done stands in {asked.output}, run it again to go on") from None
    finally:
        output.close()
    if asked.json:
        print(json.dumps(report))
    else:
        wrong = f", {report['failed']:,} with an error" if report["failed"] else ""
        print(f"{report['done_now']:,} answered{wrong} in {clock(report['host_s'])} here; "
              f"{clock(report['chip_s'])} on {asked.instance} with {report['copies']} copies, ${report['usd']:.4g}, {report['joules']:.3g} J → {asked.output}")  # fmt: skip
    return CHECK_FAILED if report["failed"] else OK
