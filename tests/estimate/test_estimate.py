"""`trine estimate` from the front door, on configurations small enough to compile in a moment."""

import json
import subprocess

import pytest

BERT = {"model_type": "bert", "vocab_size": 200, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 128, "max_position_embeddings": 64, "type_vocab_size": 2}  # fmt: skip
LLAMA = {"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 128}  # fmt: skip


def run(*words):
    done = subprocess.run(["trine", "estimate", *words], capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def config(tmp_path):
    def write(content, name="config.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


PHASES = [
    # configuration, phase, further options, results of one call
    (BERT, "forward", ["--batch", "2", "--seq", "32", "--auto-cast", "matmult"], 2),
    (LLAMA, "prefill", ["--batch", "1", "--seq", "32"], 32),
    (LLAMA, "decode", ["--batch", "4", "--seq", "64"], 4),
    (LLAMA, "decode", ["--batch", "4", "--seq", "64", "--tp", "2"], 4),
]


@pytest.mark.parametrize("content,phase,options,results", PHASES)
def test_json_adds_up(config, content, phase, options, results):
    code, out, err = run("--config", config(content), "--phase", phase, "--json", "--instance", "trn1.2xlarge", *options)
    assert code == 0, err
    d = json.loads(out)
    t = d["latency_ms"]
    assert t["achievable"] == pytest.approx(t["device"] + t["collectives"] + t["launch"])
    factor = d["calibration"]["factor"]
    assert t["p50"] == pytest.approx(t["device"] * factor + t["collectives"] + t["launch"] + t["host"])
    assert t["low"] < t["p50"] < t["high"]
    assert d["throughput_per_s"] == pytest.approx(d["copies"] * results / t["p50"] * 1e3)
    assert d["copies"] == (1 if "--tp" in options else 2)
    assert (t["collectives"] > 0) == ("--tp" in options)
    memory = d["memory_bytes_per_core"]
    assert memory["fits"] and memory["used"] >= memory["weights"] > 0
    assert (memory["cache"] > 0) == (phase != "forward")


def test_more_work_takes_longer(config):
    path = config(BERT)
    times = []
    for batch in ("1", "16"):
        code, out, err = run("--config", path, "--batch", batch, "--seq", "64", "--json")
        assert code == 0, err
        times.append(json.loads(out)["latency_ms"]["device"])
    assert times[1] > 1.5 * times[0]


def test_a_table_and_a_picture(config, tmp_path):
    picture = tmp_path / "p.svg"
    code, out, err = run("--config", config(BERT), "--seq", "64", "--compare", "inf2.xlarge,trn1.2xlarge,trn2.3xlarge", "--picture", str(picture))
    assert code == 0, err
    for name in ("inf2.xlarge", "trn1.2xlarge", "trn2.3xlarge"):
        assert name in out and name in picture.read_text()


ERRORS = [
    (["--config", "no-such-model"], 3, "no such file"),
    (["--config", "bert-base", "--instance", "p5.48xlarge"], 2, "no instance"),
    (["--config", "bert-base", "--phase", "dream"], 3, "no phase"),
    (["--config", "bert-base", "--batch", "0"], 2, "--batch 0"),
    (["--config", "bert-base", "--seq", "4096"], 3, "512 positions"),
    ([], 2, "--config is missing"),
]


@pytest.mark.parametrize("words,code,says", ERRORS)
def test_errors_say_what_was_found(words, code, says):
    found, out, err = run(*words)
    assert (found, out) == (code, "") and says in err


@pytest.mark.parametrize("content,says", [("not json", "not JSON"), ("[1]", "object"), ({"model_type": "eliza"}, "eliza")])
def test_a_bad_configuration_names_itself(config, content, says):
    code, out, err = run("--config", config(content))
    assert code == 3 and out == "" and says in err
