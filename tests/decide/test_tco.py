"""trine tco: one case by hand, the same by the spreadsheet's own formulas, what flips it, and bad input."""

import csv
import datetime
import json
import math
import os
import shutil
import subprocess

import numpy
import pytest

from trine.decide import tco_model, tco_study, tco_train
from trine.decide.formula import evaluate, excel
from trine.decide.prices import Prices

SPEEDS = {"trn1.32xlarge": [4000, 5000, 6000], "p5.48xlarge": [35000, 40000, 45000]}
OPTIONS = ["--config", "llama-3-8b", "--tokens-per-day", "1e9", "--machines", "trn1.32xlarge,p5.48xlarge", "--speeds", "speeds.json"]


def tco(trine, folder, *options, code=0):
    (folder / "speeds.json").write_text(json.dumps(SPEEDS))
    done = subprocess.run([trine, "tco", *options], capture_output=True, text=True, cwd=folder)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tco")
    done = tco(request.config.trine, folder, *OPTIONS, "--purchase", "on-demand", "--xlsx", "t.xlsx", "--html", "t.html", "--json")
    return folder, json.loads(done.stdout)


def by_hand():
    """A year of 1e9 tokens a day on trn1.32xlarge on demand at 21.50 USD an hour and 5,000 tokens/s."""
    mean = 1e9 / 86400  # tokens/s
    busy = mean / (5000 * 0.6)  # machines
    hours = 12 * 730 * busy * 1.1
    paid = hours * (1 + 16 * 0.5 / 50700 + 0.02)
    rent = paid * 21.5 * ((0.9 - 1) / math.log(0.9))  # prices fall by a tenth over the year
    egress = 1e9 * 365 * 20 / 1e9 * 0.09
    storage = 200 * 0.023 * 12
    people = 80 * 100 + 8 * 12 * 100
    return rent + egress + storage + 2 * 12 * 21.5 + people


def test_one_case_by_hand(case):
    row = next(r for r in case[1]["rows"] if r["machine"] == "trn1.32xlarge")
    assert row["total_usd"]["likely"] == pytest.approx(by_hand(), rel=1e-9)
    assert row["total_usd"]["low"] < row["total_usd"]["likely"] < row["total_usd"]["high"]
    assert row["basis"] == "given by the user" and row["price"]["usd_per_hour"] == 21.5 and row["price"]["date"]
    parts = sum(row["lines"][p] for p in tco_model.PARTS)
    assert parts == pytest.approx(row["total_usd"]["likely"])


TRAIN = ["--train", "--config", "llama-3-8b", "--tokens", "1e12", "--machines", "trn1.32xlarge,p5.48xlarge", "--speeds", "speeds.json"]


@pytest.fixture(scope="module")
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    done = tco(request.config.trine, folder, *TRAIN, "--purchase", "on-demand", "--xlsx", "t.xlsx", "--html", "t.html", "--json")
    return folder, json.loads(done.stdout)


def run_by_hand():
    """1e12 tokens at 5,000 a second of a trn1.32xlarge, 21.50 USD an hour: eight end within the year, seven do."""
    nodes = 2 ** math.ceil(math.log2(1e12 / (5000 * 0.95 * 12 * 730 * 3600)))
    lost = nodes * 16 / 50700 * (0.5 + 1.0 / 2)  # stops an hour, times what each loses
    hours = 1e12 / (nodes * 5000) / 3600 / 0.95 * (1 + lost)
    year = hours / 8760
    rent = nodes * hours * 1.02 * 21.5 * (0.9**year - 1) / (math.log(0.9) * year)
    return nodes, rent + 5000 * 0.023 * 12 + 2 * nodes * 21.5 + 80 * 100 + 8 * hours / 730 * 100


def test_a_training_run_by_hand(trained):
    row = next(r for r in trained[1]["rows"] if r["machine"] == "trn1.32xlarge")
    nodes, total = run_by_hand()
    assert row["lines"]["nodes"] == nodes == 8 and row["total_usd"]["likely"] == pytest.approx(total, rel=1e-9)
    assert row["lines"]["run_hours"] < 8760 and trained[1]["workload"]["steps"] == round(1e12 / 1024 / 4096)
    points = {p["input"] for p in trained[1]["break_even"]}
    assert "usd_per_hour" in points and "tokens_per_day" not in points
    assert "machines</th>" in (trained[0] / "t.html").read_text().replace("<th class=n>", "<th>")


def test_a_run_by_steps_is_that_by_tokens(trine, trained, tmp_path):
    steps = [o if o != "--tokens" else "--steps" for o in TRAIN]
    steps[steps.index("1e12")] = str(1e12 / 1024 / 4096)
    again = json.loads(tco(trine, tmp_path, *steps, "--purchase", "on-demand", "--json").stdout)
    assert again["rows"][0]["total_usd"] == pytest.approx(trained[1]["rows"][0]["total_usd"])


def test_a_block_is_paid_by_days_and_what_is_reserved_by_months(trine, tmp_path):
    options = [*TRAIN, "--machines", "trn1.32xlarge", "--nodes", "16", "--json"]
    lines = {way: json.loads(tco(trine, tmp_path, *options, "--purchase", way).stdout)["rows"][0]["lines"] for way in ("on-demand", "capacity-block", "reserved")}
    days = lines["on-demand"]["run_days"]
    assert lines["on-demand"]["machine_hours"] == pytest.approx(16 * 24 * days)
    assert lines["capacity-block"]["machine_hours"] == 16 * 24 * math.ceil(days) and lines["reserved"]["machine_hours"] == 16 * 8760
    late = tco(trine, tmp_path, *TRAIN, "--nodes", "2").stdout
    assert "later than asked for: trn1.32xlarge" in late


def test_peers_of_training_are_labelled(trine, tmp_path):
    options = ["--train", "--config", "llama-3-8b", "--tokens", "1e12", "--machines", "p5en.48xlarge,p5.48xlarge,mi300x-8", "--json"]
    found = {r["machine"]: r for r in json.loads(tco(trine, tmp_path, *options).stdout)["rows"]}
    h200 = found["p5en.48xlarge"]
    assert h200["basis_kind"] == "measured" and "llama-3-8b/train-b1-s1024/bf16" in h200["basis"]
    assert h200["lines"]["tokens_per_s"] == pytest.approx(8 * 8007 * 0.92, rel=1e-3)
    assert found["p5.48xlarge"]["basis_kind"] == found["mi300x-8"]["basis_kind"] == "roofline"
    assert [s["kind"] for s in found["p5.48xlarge"]["other_speeds"]] == ["published"]
    only = {r["machine"]: r for r in json.loads(tco(trine, tmp_path, *options, "--basis", "published").stdout)["rows"]}
    assert only["p5.48xlarge"]["lines"]["tokens_per_s"] == 8 * 14451 and "FP8" in only["p5.48xlarge"]["basis"]
    # What an H200 was measured at lies within the roofline of its peaks.
    other = next(s for s in h200["other_speeds"] if s["kind"] == "roofline")
    assert other["low"] < 8 * 8007 < other["high"]


@pytest.mark.slow
def test_a_modelled_run_is_the_estimates(trine, tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 128}))
    same = ["--config", "tiny.json", "--seq", "128", "--global-batch", "64", "--nodes", "1"]
    row = json.loads(tco(trine, tmp_path, "--train", *same, "--tokens", "1e9", "--machines", "trn1.2xlarge", "--json").stdout)["rows"][0]
    words = [trine, "estimate", *same, "--phase", "train", "--search", "--instance", "trn1.2xlarge", "--json"]
    wanted = json.loads(subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True).stdout)
    assert row["lines"]["tokens_per_s"] == pytest.approx(128 * wanted["throughput_per_s"]) and row["basis_kind"] == "modelled"
    assert f"tp {wanted['tp']}, pp {wanted['training']['pp']}, dp {wanted['training']['copies']}" in row["basis"]


@pytest.mark.slow
def test_a_layout_is_searched_once(trine, tmp_path):
    """A second run reads what the first one stored: no layout is timed, and all numbers are the same."""
    (tmp_path / "tiny.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 128}))
    words = [trine, "tco", "--train", "--config", "tiny.json", "--seq", "64", "--global-batch", "16", "--tokens", "1e9", "--machines", "trn1.2xlarge", "--json"]
    cached = os.environ | {"NEURON_CC_FLAGS": "", "NEURON_COMPILE_CACHE_URL": str(tmp_path / "cache")}
    first, second = (subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=cached) for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "timing tp" in first.stderr and "timing tp" not in second.stderr and first.stdout == second.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["case", "trained"])
def test_the_spreadsheet_computes_the_same(kind, request):
    folder, report = request.getfixturevalue(kind)
    wanted, lines = (by_hand(), tco_model.LINES) if kind == "case" else (run_by_hand()[1], tco_train.TRAIN_LINES)
    office = shutil.which("soffice")
    if not office:
        pytest.skip("LibreOffice (libreoffice-calc) is not installed")
    to = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,1"
    profile = f"-env:UserInstallation=file://{folder}/profile"
    subprocess.run([office, profile, "--headless", "--convert-to", to, "t.xlsx"], cwd=folder, check=True, capture_output=True, timeout=600)
    with open(folder / "t-TCO.csv") as text:
        table = list(csv.reader(text))
    names = table[0][2:]
    cells = {row[0]: dict(zip(names, row[2:], strict=True)) for row in table}
    assert float(cells["total_usd"]["trn1.32xlarge"]) == pytest.approx(wanted, rel=1e-9)
    for row in report["rows"]:
        for line, _, _ in lines:
            assert float(cells[line][row["machine"]]) == pytest.approx(row["lines"][line], rel=1e-9), (row["machine"], line)


def test_formulas_are_the_same_in_both():
    assert excel("where(a != 0, ceil(b ** 2) / -c, max(1, log(d)))", str.upper) == "IF((A<>0),(ROUNDUP((B^2),0)/(-C)),MAX(1,LN(D)))"
    assert evaluate([("x", "", "where(a > 1, a, 2 * a)")], {"a": numpy.array([1.0, 3.0])})["x"].tolist() == [2.0, 3.0]


def test_same_seed_same_numbers(trine, case, tmp_path):
    again = json.loads(tco(trine, tmp_path, *OPTIONS, "--purchase", "on-demand", "--json").stdout)
    assert again == case[1]
    other = json.loads(tco(trine, tmp_path, *OPTIONS, "--purchase", "on-demand", "--seed", "1", "--json").stdout)
    assert other["rows"][0]["distribution"] != again["rows"][0]["distribution"]
    assert other["rows"][0]["total_usd"]["likely"] == again["rows"][0]["total_usd"]["likely"]


def test_at_a_break_even_point_both_cost_the_same(trine, case, tmp_path):
    report = case[1]
    assert report["compared"] == ["trn1.32xlarge", "p5.48xlarge"] and report["tornado"][0][0]
    widths = [abs(high - low) for _, low, high in report["tornado"]]
    assert widths == sorted(widths, reverse=True)
    point = next(p for p in report["break_even"] if p["input"] == "usd_per_hour" and p["of"] == "p5.48xlarge")
    rows = [{"name": "p5.48xlarge", "prices": [{"way": "on-demand", "usd_per_hour": point["at"], "region": "x", "date": "2026-11-01", "from": "test"}]}]
    (tmp_path / "ours.json").write_text(json.dumps({"machines": rows}))
    same = json.loads(tco(trine, tmp_path, *OPTIONS, "--purchase", "on-demand", "--prices", "ours.json", "--json").stdout)["rows"]
    assert same[0]["total_usd"]["likely"] == pytest.approx(same[1]["total_usd"]["likely"], rel=1e-6)


def test_a_held_machine_is_paid_for_all_hours(trine, tmp_path):
    report = json.loads(tco(trine, tmp_path, *OPTIONS, "--purchase", "capacity-block", "--months", "6", "--json").stdout)
    lines = next(r["lines"] for r in report["rows"] if r["machine"] == "trn1.32xlarge")
    assert lines["machines_held"] == math.ceil(1e9 / 86400 * 2.5 / 5000) == 6
    assert lines["machine_hours"] == 6 * 6 * 730 and lines["rent_usd"] == pytest.approx(lines["paid_hours"] * 9.532)


def test_a_measured_baseline_is_used_and_named(trine, tmp_path):
    def row(phase, batch, tokens, rate, mode):
        return {"ok": True, "model": "llama-3-8b", "phase": phase, "dtype": "bf16", "batch": batch, "tokens": tokens, "mode": mode,
                "steady": {"items_per_s": rate}}  # fmt: skip

    rows = [row("prefill", 1, 1024, 20000, "eager"), row("decode", 32, 1024, 1000, "eager"), row("decode", 32, 1024, 2000, "reduce-overhead")]
    report = {"kind": "baseline", "small": False, "date": "2026-11-17", "machine": {"gpu": "NVIDIA H200"}, "rows": rows}
    (tmp_path / "own.json").write_text(json.dumps(report))
    options = ["--config", "llama-3-8b", "--tokens-per-day", "1e9", "--machines", "p5.48xlarge,p5en.48xlarge", "--baseline", "own.json", "--json"]
    found = {r["machine"]: r for r in json.loads(tco(trine, tmp_path, *options).stdout)["rows"]}
    h200 = found["p5en.48xlarge"]
    seconds = (32 * 896 / 20000 + 128 * 32 / 2000) / (32 * 128)  # of a token on one GPU
    assert h200["lines"]["tokens_per_s"] == pytest.approx(8 / seconds) and h200["basis_kind"] == "measured"
    assert "NVIDIA H200" in h200["basis"] and "own.json" in h200["basis"] and "reduce-overhead" in h200["basis"]
    assert found["p5.48xlarge"]["basis_kind"] == "roofline"  # at the same batch, not at MLPerf's
    assert {s["kind"] for s in found["p5.48xlarge"]["other_speeds"]} == {"published"}


def test_no_price_is_told_with_the_price_that_would_match(trine, tmp_path):
    (tmp_path / "more.json").write_text(json.dumps({**SPEEDS, "trn3-gen1-ultraserver": 200000}))
    options = [*OPTIONS, "--speeds", "more.json", "--machines", "p5.48xlarge,trn3-gen1-ultraserver"]
    text = tco(trine, tmp_path, *options).stdout
    assert "trn3-gen1-ultraserver  no price known: --prices FILE gives one; it would match the best at" in text


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--tokens-per-day", "1e9"], 2, "--config is missing"),
        (["--config", "llama-3-8b"], 2, "--tokens-per-day is missing"),
        (["--config", "no-such-model", "--tokens-per-day", "1e9"], 3, "no-such-model"),
        ([*OPTIONS, "--machines", "abacus"], 2, 'found no machine "abacus", expected of trn1.32xlarge'),
        (["--train", "--config", "llama-3-8b"], 2, "--train: found no number of tokens, expected one of --tokens, --steps"),
        (["--train", "--config", "llama-3-8b", "--tokens", "1e9", "--steps", "9"], 2, "--train: found --tokens, --steps"),
        (["--train", "--config", "llama-3-8b", "--tokens", "1e9", "--prompt", "9"], 2, "found --prompt with --train"),
        ([*OPTIONS, "--nodes", "2"], 2, "found --nodes without --train"),
        (["--train", "--config", "bert-base", "--tokens", "1e9"], 3, "expected a decoder"),
        ([*OPTIONS, "--purchase", "owned"], 3, "no owned price known"),
        ([*OPTIONS, "--duty", "0"], 2, "found --duty 0, expected a number from 0.001 to 1"),
        ([*OPTIONS, "--against", "abacus"], 2, 'found no --against "abacus"'),
        ([*OPTIONS, "--prices", "none.json"], 5, "none.json: No such file or directory"),
        ([*OPTIONS, "--prices", "bad.json"], 2, "bad.json, x: found region None, expected a text"),
        ([*OPTIONS, "--baseline", "bad.json"], 2, "bad.json: found not a whole baseline"),
        ([*OPTIONS, "--baseline", "list.json"], 2, "list.json: found not a whole baseline"),
        ([*OPTIONS, "--prices", "list.json"], 2, "list.json: found a list, expected an object"),
        ([*OPTIONS, "--prices", "half.json"], 2, "half.json: found no JSON"),
        ([*OPTIONS, "--prices", "bytes.json"], 2, "bytes.json: found no JSON"),
        ([*OPTIONS, "--prices", "nan.json"], 2, "nan.json, x: found nan USD an hour, expected no less than 0"),
        ([*OPTIONS, "--prices", "text.json"], 2, "text.json: found machines"),
        ([*OPTIONS, "--prices", "band.json"], 2, "band.json, pue: found low, is, high [2, 1, 3], expected them in that order"),
        ([*OPTIONS, "--audit", "hours.json"], 2, "hours.json: found effort_h 'long', expected hours"),
        ([*OPTIONS, "--speeds", "words.json"], 2, "--speeds, trn1.32xlarge: found fast"),
        ([*OPTIONS, "--speeds", "wrong.json"], 2, "--speeds, trn1.32xlarge: found [3, 2, 1]"),
    ],
)
def test_bad_input(trine, tmp_path, options, code, words):
    (tmp_path / "bad.json").write_text(json.dumps({"machines": [{"name": "x", "prices": [{"way": "spot", "usd_per_hour": 1}]}]}))
    row = {"way": "spot", "usd_per_hour": float("nan"), "region": "x", "date": "2026-01-01", "from": "x"}
    texts = {"list": "[1]", "half": '{"machines": [', "text": '{"machines": "x"}', "nan": json.dumps({"machines": [{"name": "x", "prices": [row]}]}),
             "band": '{"inputs": [{"name": "pue", "is": 1, "low": 2, "high": 3}]}', "hours": '{"findings": [{"effort_h": "long"}]}', "words": '{"trn1.32xlarge": "fast"}'}  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "bytes.json").write_bytes(bytes(range(128, 256)))
    (tmp_path / "wrong.json").write_text(json.dumps({"trn1.32xlarge": [3, 2, 1]}))
    assert words in tco(trine, tmp_path, *options, code=code).stderr


@pytest.mark.slow
def test_an_impossible_limit_is_told(trine, tmp_path):
    done = tco(trine, tmp_path, "--config", "gpt2", "--tokens-per-day", "1e9", "--machines", "trn1.2xlarge", "--p99-ms", "0.01", code=1)
    assert "no machine is left to compare. trn1.2xlarge: p99 of a step is" in done.stderr and "over the 0.01 ms asked for" in done.stderr


def test_old_prices_are_listed(trine):
    prices = Prices(trine)
    assert prices.stale(datetime.date(2026, 1, 22)) == [r for r in prices.stale(datetime.date(2026, 1, 22)) if r["days"] is None or r["days"] > 90]
    late = prices.stale(datetime.date(2026, 9, 1))
    assert {"trn1.32xlarge"} <= {r["machine"] for r in late} and "mi300x-8" not in {r["machine"] for r in late}
    assert all(row.get("date") and row.get("from") and row.get("region") for _, _, row in prices.rows())


def test_claims_name_how_both_are_rented(case):
    claim = next(c for c in case[1]["claims"] if c["ratio_here"])
    assert claim["ratio_here"] == pytest.approx(21.5 / 5000 / (55.04 / 40000)) and claim["ways"] == ["on-demand", "on-demand"]


def test_the_page_stands_alone(case):
    page = (case[0] / "t.html").read_text()
    assert page.count("<svg") == 2 and "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "<script" not in page
    assert "trn1.32xlarge" in page and "doc: public price data" in page and "Where it flips" in page


def test_crossing():
    assert tco_study.crossing(lambda x: x - 3, 0, 10) == pytest.approx(3)
    assert tco_study.crossing(lambda x: x + 3, 0, 10) is None


def test_a_roofline_brackets_the_measured_h200():
    """Llama-3-8B, batch 32, context 1,024, one H200: 5,286 tokens/s decoding and 38,611 tokens/s of prompts, measured 2026-11-17."""
    from trine.decide import tco_speed

    class Asked:
        config, batch, prompt, output, seq = "llama-3-8b", 32, 896, 128, None

    work = tco_speed.load_workload(Asked)
    machine = {"name": "h200", "chips": 1, "hbm_gb": 141, "hbm_tb_per_s": 4.8, "bf16_tflops": 989}
    speed = tco_speed.roofline(work, machine)
    seconds = tco_speed.request_s(work, 896 / 38611, 32 / 5286)
    assert speed.low < 1 / seconds < speed.high and 0.7 < speed.likely * seconds < 1
