"""The search for a layout: programs that layouts share are timed once, and the quick way gives what the full one gives."""

import pytest

from trine.estimate import program, room, search
from trine.estimate.answer import estimate

TINY = {"model_type": "gpt2", "n_embd": 64, "n_layer": 8, "n_head": 4, "vocab_size": 256, "n_positions": 128, "_name_or_path": "tiny"}
HOW = {"instance": "trn1.2xlarge", "phase": "train", "seq": 64, "nodes": 1, "global_batch": 16}


def numbers(answer):
    """All that is no time of this host."""
    return {k: v for k, v in answer.as_dict().items() if k not in ("trace_s", "compile_s", "timer_s")}


@pytest.fixture(scope="module")
def full():
    return search.search(TINY, batch=1, tp=1, **HOW)


def test_programs_are_timed_once(full, monkeypatch):
    made, timed = [], program.timed_anew

    def anew(model, phase, batch, seq, at, *rest, **how):
        made.append((model.settings.layers, phase, batch, seq, at.tp))
        return timed(model, phase, batch, seq, at, *rest, **how)

    monkeypatch.setattr(program, "timed_anew", anew)
    said = []
    quick = search.search(TINY, quick=True, say=said.append, batch=1, tp=1, **HOW)
    assert numbers(quick) == numbers(full)  # programs so small are all tried
    assert len(made) == len(set(made)) and len(said) >= len(full.search["timed"]) > 1
    made.clear()
    p = quick.plan
    again = estimate(TINY, tp=quick.tp, batch=quick.batch, pp=p.pp, chunks=p.chunks, zero=p.zero, recompute=p.recompute, **HOW)
    assert made and again.throughput == quick.throughput  # nothing is kept beyond the search


def test_of_large_programs_only_those_that_were_made_are_timed(monkeypatch):
    monkeypatch.setattr(program, "LARGE", 0)
    quick = search.search(TINY, quick=True, batch=1, tp=1, **HOW)
    kinds = {tuple(w for w in row["layout"].split(", ") if w.startswith(("tp", "batch", "recompute"))) for row in quick.search["timed"]}
    assert len(kinds - {("tp 1", "batch 1"), ("tp 2", "batch 1")}) <= 1, "the first one's, and what told of room"
    assert quick.throughput == max(row["sequences_per_s"] for row in quick.search["timed"])


WIDE = TINY | {"n_embd": 512, "n_head": 8, "vocab_size": 2048, "n_positions": 2048}  # more than is kept on chip


def test_room_is_told_before_programs_are_made():
    """From programs of one layer and two on four cores and eight, what others need of memory."""
    where = HOW | {"instance": "trn1.32xlarge", "seq": 2048, "global_batch": 128}
    with program.shared():
        needs = room.measured([search.ask(WIDE, **where, tp=tp, batch=1) for tp in (4, 8)])
        for how in ({"tp": 2}, {"tp": 2, "batch": 2, "pp": 2}, {"tp": 2, "recompute": "full"}):
            asked = search.ask(WIDE, **where, **{"batch": 1, "recompute": "none"} | how)
            assert needs.needed(asked) == pytest.approx(search.estimate_asked(asked).memory["used"], rel=0.1), how


def test_what_is_not_likely_to_fit_is_tried_last(monkeypatch):
    monkeypatch.setattr(program, "LARGE", 0)
    said = []
    room_of = search.weighed(TINY, HOW | {"batch": 1, "tp": 1})[0][0].room
    monkeypatch.setattr(room.Needs, "needed", lambda self, asked: room_of + (1 if asked.at.tp == 1 else 0))
    search.search(TINY, quick=True, say=said.append, batch=1, tp=1, **HOW)
    assert "tp 2" in said[0] and ["tp 1" in words for words in said] == sorted("tp 1" in words for words in said)


@pytest.mark.parametrize("error", [MemoryError("a value of 99 GB"), IndexError("error NCC_EXTP004: too many instructions")])
def test_what_has_no_room_is_left_for_the_next(full, monkeypatch, error):
    """A value that the virtual core cannot hold, or a program too long, costs its layout, not the search."""
    first, asked = [], search.estimate_asked

    def without_room(a):
        if not first:
            first.append(a)
            raise error
        return asked(a)

    monkeypatch.setattr(search, "estimate_asked", without_room)
    found = search.search(TINY, batch=1, tp=1, **HOW)
    assert "do not fit memory" in {row["why"] for row in found.search["left_out"]} and found.memory["fits"]
