"""Published rows as cases: what counts once, which time is the device's, what is asked of the predictor."""

import json

import pytest

from trine.accuracy import rows
from trine.models.families import family_of

BERT = {"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522}
ROW = {"id": "a.p50", "case": "a", "family": "encoder", "config": BERT, "instance": "trn1.2xlarge", "batch": 8, "seq_in": 128, "tp": 1,
       "phase": "prefill", "dtype": "fp32", "auto_cast": "Matmult-BF16", "metric": "latency_p50", "value": 30.0, "unit": "ms", "source": "x"}  # fmt: skip


def one(**changes):
    found = rows.cases({"models": [ROW | changes]})
    assert len(found) == 1
    return found[0]


def test_latency_and_throughput_of_a_run_count_once():
    found = rows.cases({"models": [ROW, ROW | {"id": "a.tput", "metric": "throughput", "value": 500.0, "unit": "inferences/s"}]})
    assert len(found) == 1 and found[0].rows == 2 and found[0].time_ms == 30.0
    assert found[0].kind == "encoder" and found[0].ask["phase"] == "forward" and found[0].ask["auto_cast"] == "matmult"


def test_waiting_is_taken_out_where_the_row_says_so():
    assert one(service_ms=15.0).time_ms == 15.0
    impossible = 0.001  # less than the tensor engine's peak takes
    assert one(service_ms=impossible).time_ms == 30.0


def test_training_is_a_step():
    case = one(phase="train", family="training", feature="microbatch 16 per rank, optimizer AdamW", batch=1024, dp=32, pp=1, nodes=1, metric="throughput",
               value=512.0, unit="sequences/s", dtype="Autocast:BF16+SR")  # fmt: skip
    assert case.time_ms == pytest.approx(2000.0) and case.ask["batch"] == 16 and case.ask["global_batch"] == 1024 and case.kind == "training"


def test_prompts_are_padded_to_the_bucket_that_the_note_names():
    llama = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "vocab_size": 100}
    case = one(family="llm", config=llama, seq_in=10000, seq_out=10, metric="ttft_p50", note="context bucket 12288", dtype="bf16")
    assert case.ask["seq"] == 12288 and case.kind == "long prompts"


def test_a_forward_pass_of_a_decoder_ends_with_hidden_states():
    gpt2 = {"model_type": "gpt2", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}
    case = one(family="decoder_forward", config=gpt2)
    settings = family_of(case.ask["config"]).settings(case.ask["config"], strict=False)
    assert case.kind == "decoder forward" and settings.head == "" and (settings.width, settings.layers) == (64, 2)


def test_layers_of_two_kinds_are_counted_and_sound_is_samples():
    lfm = {"model_type": "lfm2", "hidden_size": 64, "num_hidden_layers": 30, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
           "num_attention_layers": 8, "num_conv_layers": 22}  # fmt: skip
    settings = family_of(lfm).settings(rows.spelled(lfm), strict=False)
    assert settings.ffn == 96 and sum(not form for form in settings.forms) == 8
    assert one(config=BERT | {"samples": 112000, "frames": 349}, seq_in=349).ask["seq"] == 112000


def test_f32_multiplies_are_cast_unless_the_row_says_otherwise():
    assert rows.cases({"models": [{k: v for k, v in ROW.items() if k != "auto_cast"}]})[0].ask["auto_cast"] == "matmult"
    assert "auto_cast" not in one(auto_cast="None").ask and "auto_cast" not in one(dtype="bf16").ask


def test_unknown_machines_and_cores_are_named():
    assert 'no instance "trn9.large"' in one(instance="trn9.large").skip
    assert "out of range" in one(instance="inf1.xlarge").skip


def test_a_collective_is_timed_where_it_was():
    row = {"id": "r", "op": "all_gather", "ranks": 32, "nodes": 1, "size_bytes": 1024, "time_us": 6.0, "instance_guess": "trn1.32xlarge (guess)"}
    device = rows.cases({"collectives": [row]})[0]
    host = rows.cases({"collectives": [row | {"time_us": 600.0}]})[0]
    assert device.ask["launch_us"] == 0 and host.ask["launch_us"] > 40 and device.instance == "trn1.32xlarge"


def test_trines_own_file_is_whole():
    content = rows.load()
    every = [r for part in ("models", "kernels", "collectives") for r in content[part]]
    assert len(every) == 378 and all(r.get("source") for r in every)
    assert all(r.get("unit") for part in ("models", "kernels") for r in content[part])
    assert len({r["id"] for r in every}) == len(every)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps([1, 2]))
    with pytest.raises(ValueError, match="expected an object"):
        rows.load(path)
