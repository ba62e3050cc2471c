"""`trine estimate` from the front door, on configurations small enough to compile in a moment."""

import json
import subprocess
import xml.etree.ElementTree

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


def test_the_model_may_stand_alone(config):
    named, alone = (run(*words, "--seq", "32", "--json") for words in (["--config", config(BERT)], [config(BERT)]))
    assert alone[0] == 0 and json.loads(alone[1])["latency_ms"] == json.loads(named[1])["latency_ms"]


PHASES = [
    # configuration, phase, further options, results of one call
    (BERT, "forward", ["--batch", "2", "--seq", "32", "--auto-cast", "matmult"], 2),
    (BERT, "prefill", ["--batch", "2", "--seq", "32"], 2),  # forward, of what writes nothing
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
    assert d["by_layer"] and sum(r["ms"] for r in d["by_layer"]) == pytest.approx(t["device"] + t["collectives"], rel=0.1, abs=0.02)
    device = d["calibration"]["neuron_ms"] * factor + sum(d["calibration"][name] for name in ("unfused_ms", "norms_ms", "blocks_ms"))
    assert d["calibration"]["neuron_ms"] >= t["device"] or d["phase"] == "prefill"  # a prompt is not held up by our own spills
    assert t["p50"] == pytest.approx(device + t["collectives"] + t["launch"] + t["host"])
    assert t["low"] < t["p50"] < t["high"]
    assert d["throughput_per_s"] == pytest.approx(d["copies"] * results / t["p50"] * 1e3)
    assert d["copies"] == (1 if "--tp" in options else 2)
    assert (t["collectives"] > 0) == ("--tp" in options)
    memory = d["memory_bytes_per_core"]
    assert memory["fits"] and memory["used"] >= memory["weights"] > 0
    assert (memory["cache"] > 0) == (d["phase"] != "forward") == (content == LLAMA)


def test_logical_cores_are_two_physical_ones(config):
    path, found = config(LLAMA), {}
    for lnc in ("1", "2"):
        code, out, err = run("--config", path, "--phase", "decode", "--seq", "64", "--json", "--instance", "trn2.3xlarge", "--lnc", lnc)
        assert code == 0, err
        found[lnc] = json.loads(out)
    one, two = found["1"], found["2"]
    assert (one["copies"], two["copies"]) == (8, 4)
    assert two["memory_bytes_per_core"]["room"] == 2 * one["memory_bytes_per_core"]["room"]
    assert two["latency_ms"]["collectives"] > 0 == one["latency_ms"]["collectives"]
    assert two["hbm_read_bytes"] < one["hbm_read_bytes"]


def test_generation_adds_up(config):
    code, out, err = run("--config", config(LLAMA), "--seq", "16", "--new-tokens", "32", "--json")
    assert code == 0, err
    d = json.loads(out)
    g = d["generation"]
    assert g["first_token_ms"] == pytest.approx(d["latency_ms"]["p50"])
    assert g["total_ms"] == pytest.approx(g["first_token_ms"] + 31 * g["token_ms"], rel=0.2)
    assert g["tokens_per_s"] == pytest.approx(32 / g["total_ms"] * 1e3)


def test_many_layers_are_as_few_ones_repeated(monkeypatch):
    from trine.estimate import estimate, program

    deep = LLAMA | {"num_hidden_layers": 16}
    found = []
    for long in (10**9, 0):  # all layers; three and five of them
        monkeypatch.setattr(program, "LONG", long)
        found.append(estimate(deep, phase="decode", seq=64, tp=2, instance="trn1.2xlarge", dtype="bfloat16"))
    whole, few = found
    assert few.device_ms == pytest.approx(whole.device_ms, rel=0.06)
    assert few.collectives_ms == pytest.approx(whole.collectives_ms)
    assert few.memory["weights"] == whole.memory["weights"] and few.memory["cache"] == whole.memory["cache"]
    assert {r["layer"] for r in few.layers()} >= {f"layer {i}" for i in range(16)}


def test_long_prompts_are_as_chunks(monkeypatch):
    from trine.estimate import estimate, program

    wide, found = LLAMA | {"max_position_embeddings": 2048, "hidden_size": 1024, "intermediate_size": 2048, "num_attention_heads": 8}, []
    for chunk in (1 << 20, 512):  # all at once; the first and the last
        monkeypatch.setattr(program, "CHUNK", chunk)
        found.append(estimate(wide, phase="prefill", seq=2000, tp=2, dtype="bfloat16"))
    whole, chunks = found
    assert chunks.device_ms == pytest.approx(whole.device_ms, rel=0.2)
    assert chunks.report["flops"] == pytest.approx(whole.report["flops"], rel=0.1)
    assert chunks.memory["cache"] == whole.memory["cache"]


def test_cores_that_share_a_head_do_less(monkeypatch):
    from trine.estimate import estimate
    from trine.models import phases

    one_head = LLAMA | {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 2048}
    for phase, seq in (("prefill", 1024), ("decode", 2048)):
        halves = estimate(one_head, phase=phase, seq=seq, instance="trn2.3xlarge", dtype="bfloat16")
        with monkeypatch.context() as m:
            m.setattr(phases, "shared_by", lambda *_: "")
            whole = estimate(one_head, phase=phase, seq=seq, instance="trn2.3xlarge", dtype="bfloat16")
        assert halves.report["flops"] < 0.8 * whole.report["flops"]


def test_training_over_copies_and_stages(config):
    path, common = config(LLAMA | {"num_hidden_layers": 4}), ["--phase", "train", "--seq", "64", "--json", "--instance", "trn1.32xlarge"]
    found = {}
    for name, options in {
        "shares": ["--tp", "2", "--dp", "16", "--global-batch", "64"],
        "copies": ["--tp", "2", "--accumulate", "4", "--no-zero1"],
        "stages": ["--tp", "2", "--pp", "4", "--accumulate", "4", "--nodes", "2"],
    }.items():
        code, out, err = run("--config", path, *common, *options)
        assert code == 0, err
        found[name] = json.loads(out)
    shares, copies, stages = (found[n]["training"] for n in ("shares", "copies", "stages"))
    assert shares == {"nodes": 1, "copies": 16, "pp": 1, "accumulate": 4, "zero": 1, "cp": 1, "ep": 1, "chunks": 1, "recompute": "none",
                      "optimiser": "f32", "overlap": False, "global_batch": 64}  # fmt: skip
    assert copies == shares | {"zero": 0} and stages == shares | {"nodes": 2, "copies": 8, "pp": 4, "global_batch": 32}
    memory = {n: f["memory_bytes_per_core"] for n, f in found.items()}
    assert memory["shares"]["optimiser"] < memory["copies"]["optimiser"] and memory["stages"]["weights"] < memory["shares"]["weights"]
    of = {n: {u.get("of") for u in f["collectives"]} for n, f in found.items()}
    assert of == {"shares": {None, "gradients", "parameters"}, "copies": {None, "gradients"}, "stages": {None, "gradients", "parameters", "stages"}}


def test_options_of_megatron(config):
    path, common = config(LLAMA | {"num_hidden_layers": 4}), ["--phase", "train", "--json", "--instance", "trn1.32xlarge", "--nodes", "1"]
    ours = ["--seq", "64", "--tp", "2", "--pp", "2", "--chunks", "2", "--batch", "2", "--global-batch", "64", "--zero", "1", "--recompute", "full"]
    theirs = ["--seq-length", "64", "--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2", "--micro-batch-size", "2",
              "--num-layers-per-virtual-pipeline-stage", "1", "--global-batch-size", "64", "--use-distributed-optimizer", "--sequence-parallel",
              "--recompute-granularity", "full"]  # fmt: skip
    found = []
    for options in (ours, theirs):
        code, out, err = run("--config", path, *common, *options)
        assert code == 0, err
        found.append(json.loads(out))
    assert found[0]["training"] == found[1]["training"] and found[0]["latency_ms"] == found[1]["latency_ms"]


def test_the_layout_that_is_found_is_the_fastest_that_fits(config, tmp_path):
    path, picture = config(LLAMA | {"num_hidden_layers": 4}), tmp_path / "step.svg"
    common = ["--phase", "train", "--seq", "64", "--instance", "trn1.32xlarge", "--nodes", "1", "--global-batch", "128"]
    code, out, err = run("--config", path, *common, "--search", "--json", "--picture", str(picture))
    assert code == 0, err
    d = json.loads(out)
    rates = [row["sequences_per_s"] for row in d["search"]["timed"]]
    assert len(rates) == 4 and rates == sorted(rates, reverse=True) and rates[0] == pytest.approx(d["throughput_per_s"])
    assert not d["search"]["timed"][0]["lost_by"] and all(row["lost_by"] for row in d["search"]["timed"][1:])
    assert d["search"]["left_out"][0]["layouts"] and "stage 0" in picture.read_text()
    code, out, err = run("--config", path, *common, "--search")
    assert code == 0 and "layout" in out and "lost by" in out, err


def test_casting_all_is_more_than_casting_multiplies(config):
    path, found = config(BERT), {}
    for cast in ("none", "matmult", "all"):
        code, out, err = run("--config", path, "--seq", "64", "--json", "--auto-cast", cast)
        assert code == 0, err
        found[cast] = json.loads(out)
    assert found["all"]["dtype"] == "bfloat16" and found["matmult"]["dtype"] == "float32"
    weights = [found[c]["memory_bytes_per_core"]["weights"] for c in ("none", "matmult", "all")]
    assert weights[0] > weights[1] > weights[2]


def test_what_does_not_fit_says_what_would(config):
    big = LLAMA | {"hidden_size": 8192, "intermediate_size": 65536, "num_hidden_layers": 12, "num_attention_heads": 64, "num_key_value_heads": 64}
    code, out, _ = run("--config", config(big), "--phase", "decode", "--seq", "16", "--instance", "trn1.32xlarge")
    assert code == 4 and "does not fit" in out and "most of it weights; --tp 4 would" in out


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
    drawn = xml.etree.ElementTree.fromstring(picture.read_text())
    words = ["".join(t.itertext()) for t in drawn.iterfind(".//{*}text")]
    assert {"our program", "Neuron's likely", "its 90 % band", "0"} < set(words) and any(w.startswith("latency, ") for w in words)
    bars = {kind: [r for r in drawn.iterfind(".//{*}rect") if r.get("class") == kind] for kind in ("first", "second")}
    ours, likely = ([float(r.get("width")) for r in bars[kind][1:]] for kind in ("first", "second"))  # the first is the legend's
    assert len(ours) == len(likely) == 3 and all(a > 0 for a in ours + likely)
    zero = next(float(n.get("x1")) for n in drawn.iterfind(".//{*}line") if n.get("class") == "axis")
    assert {float(r.get("x")) for kind in bars for r in bars[kind][1:]} == {zero}
    assert sum(n.get("class") == "ink" for n in drawn.iterfind(".//{*}line")) == 3 * (1 + 3)


ERRORS = [
    (["--config", "no-such-model"], 3, "no such file"),
    (["--config", "albert-base-v2"], 3, "nearest: albert-base"),
    (["--config", "bert-base", "--instance", "p5.48xlarge"], 2, "no instance"),
    (["--config", "bert-base", "--phase", "dream"], 2, "found --phase dream, expected prefill"),
    (["--config", "bert-base", "--batch", "0"], 2, "--batch 0"),
    (["--config", "bert-base", "--auto-cast", "some"], 2, "--auto-cast some"),
    (["--config", "bert-base", "--dtype", "i8"], 2, "--dtype i8"),
    (["--config", "bert-base", "--lnc", "2", "--instance", "trn1.2xlarge"], 2, "--lnc 2"),
    (["--config", "bert-base", "--new-tokens", "5"], 2, "--new-tokens"),
    (["--config", "bert-base", "--new-tokens", "5", "--phase", "prefill"], 3, "writes no text"),
    (["--config", "bert-base", "--phase", "decode"], 3, "it has no decode"),
    (["--config", "bert-base", "--tp", "64"], 3, "2 cores"),
    (["--config", "bert-base", "--seq", "4096"], 3, "512 positions"),
    (["--config", "gpt2", "--phase", "train", "--dp", "3", "--nodes", "1"], 3, "hold 2 copies"),
    (["--config", "gpt2", "--phase", "train", "--global-batch", "3"], 3, "multiples of 2"),
    (["--config", "gpt2", "--phase", "train", "--pp", "99"], 3, "this has 12"),
    (["--config", "gpt2", "--phase", "decode", "--pp", "2"], 2, "of --phase train"),
    (["--config", "gpt2", "--phase", "train", "--zero1", "--no-zero1"], 2, "say the opposite"),
    (["--config", "gpt2", "--phase", "decode", "--search"], 2, "--search with --phase decode"),
    (["--config", "gpt2", "--phase", "train", "--pp", "2", "--pipeline-model-parallel-size", "4"], 2, "--pp 2 and --pipeline-model-parallel-size 4"),
    (["--config", "gpt2", "--phase", "train", "--pp", "2", "--num-layers-per-virtual-pipeline-stage", "5"], 2, "a divisor of 6 is expected"),
    ([], 2, "--config is missing"),
    (["gpt2", "--config", "bert-base"], 2, "two models: gpt2 and --config bert-base"),
]


@pytest.mark.parametrize("words,code,says", ERRORS)
def test_errors_say_what_was_found(words, code, says):
    found, out, err = run(*words)
    assert (found, out) == (code, "") and says in err


@pytest.mark.parametrize("content,says", [("not json", "not JSON"), ("[1]", "object"), ({"model_type": "eliza"}, "eliza")])
def test_a_bad_configuration_names_itself(config, content, says):
    code, out, err = run("--config", config(content))
    assert code == 3 and out == "" and says in err


def test_what_cannot_fit_is_said_before_it_is_compiled(config, monkeypatch):
    from trine.estimate import answer

    monkeypatch.setattr(answer, "timed", lambda *_, **__: pytest.fail("it was compiled"))
    big = LLAMA | {"hidden_size": 8192, "intermediate_size": 65536, "num_hidden_layers": 12, "num_attention_heads": 64, "num_key_value_heads": 64}
    asked = answer.ask(big, phase="decode", seq=16, instance="trn1.32xlarge", dtype="bfloat16")
    large = asked.too_large()
    assert not large.memory["fits"] and large.memory["used"] > large.memory["room"] and large.fits_at_tp == 4
    assert answer.ask(LLAMA, phase="decode", seq=16).too_large() is None


@pytest.mark.parametrize("phase,training", [("decode", {}), ("train", {"dp": 2, "zero": 0}), ("train", {"dp": 2, "zero": 1}), ("train", {"dp": 2, "zero": 3})])
def test_what_is_resident_is_what_the_program_holds(phase, training):
    from trine.estimate import answer

    asked = answer.ask(LLAMA, phase=phase, seq=64, instance="trn1.2xlarge", dtype="bfloat16", **training)
    held = answer.memory.resident(asked.model, asked.phase, asked.each, asked.length, asked.at, asked.plan)
    found = answer.estimate_asked(asked).memory
    for name in ("weights", "cache", "optimiser"):
        assert held[name] == pytest.approx(found[name], rel=0.02), name


def test_one_column_has_prices_of_one_way_to_rent(config):
    path, names = config(BERT), "inf2.xlarge,trn1.2xlarge,trn2.3xlarge"
    code, out, err = run("--config", path, "--seq", "64", "--compare", names)
    assert code == 0, err
    lines = {line.split()[0]: line.split() for line in out.splitlines()[2:6]}
    assert "$/1M on-demand" in out and "–" in lines["trn2.3xlarge"] and "–" not in lines["inf2.xlarge"][-2:]
    code, out, err = run("--config", path, "--seq", "64", "--compare", names, "--price", "capacity-block")
    lines = {line.split()[0]: line.split() for line in out.splitlines()[2:6]}
    assert "$/1M capacity block" in out and lines["trn1.2xlarge"][-2] == "–" and float(lines["trn2.3xlarge"][-2]) > 0


def test_limits_and_order(config):
    path, common = config(BERT), ["--seq", "64", "--compare", "trn2.3xlarge,trn1.2xlarge,inf2.xlarge", "--json"]
    code, out, err = run("--config", path, *common, "--sort", "cost", "--price", "on-demand")
    assert code == 0, err
    rows = json.loads(out)["rows"]
    prices = [next((r["usd_per_million"] for r in row["cost"]["rents"] if r["way"] == "on-demand"), float("inf")) for row in rows]
    assert prices == sorted(prices) and len(rows) == 3 and rows[-1]["instance"] == "trn2.3xlarge"
    times = {row["instance"]: row["latency_ms"]["p99"] for row in rows}
    assert all(row["latency_ms"]["p99"] > row["latency_ms"]["p50"] for row in rows)
    limit = (min(times.values()) + max(times.values())) / 2
    code, out, err = run("--config", path, *common, "--p99", f"{limit * 1e3:.3f}us")
    left = json.loads(out)
    assert code == 0 and {r["instance"] for r in left["rows"]} == {n for n, t in times.items() if t <= limit} and left["too_slow"], err
    code, out, err = run("--config", path, *common, "--p99", "1us")
    assert code == 1 and not json.loads(out)["rows"]
    code, out, err = run("--config", path, *common, "--p99", "soon")
    assert code == 2 and '--p99 "soon": a time such as 20ms' in err


def test_a_training_run_has_dollars_and_its_parts_add_up(config):
    code, out, err = run("--config", config(LLAMA), "--phase", "train", "--seq", "64", "--instance", "trn1.32xlarge", "--tp", "2", "--pp", "2",
                         "--accumulate", "4", "--nodes", "2", "--tokens", "1000000", "--json")  # fmt: skip
    assert code == 0, err
    d = json.loads(out)
    t, r = d["training"], d["training"]["run"]
    assert r["steps"] == -(-1000000 // (t["global_batch"] * 64))
    for rent in d["cost"]["rents"]:
        assert rent["usd_per_step"] == pytest.approx(2 * rent["usd_per_hour"] * d["latency_ms"]["p50"] / 3.6e6)
        assert rent["usd_per_run"] == pytest.approx(rent["usd_per_step"] * r["steps"])
        assert rent["usd_per_million_tokens"] == pytest.approx(rent["usd_per_step"] / (t["global_batch"] * 64) * 1e6)
    times = d["latency_ms"]
    assert sum(row["ms"] for row in d["by_layer"]) == pytest.approx(times["device"] + times["collectives"], rel=0.1)


def test_dollars_of_written_tokens_include_their_prompt(config):
    code, out, err = run("--config", config(LLAMA), "--seq", "16", "--new-tokens", "32", "--json", "--instance", "trn1.2xlarge")
    assert code == 0, err
    d = json.loads(out)
    rent = d["cost"]["rents"][0]
    assert rent["usd_per_million"] == pytest.approx(rent["usd_per_hour"] / 3600 * 1e6 / d["generation"]["tokens_per_s_instance"])
