"""The corpus tells a change of one instruction, and is the same in every process."""

import lzma
import os
import re

import pytest
from replay import corpus, difference, run, stored

FEW = r"ops/(add|dot_general|sort|while|gather) |jax/(mlp|lstm|attention_gradient)$|mesh/matmul$|onnx/(LSTM|Gemm)$|nki/matmul.tiled .*f32|torch/row (softmax|_softmax)"


@pytest.fixture(scope="module")
def found():
    return run.collect_in(run.ROOT, 1, "texts", FEW)


def stream_line(text):
    """An instruction of a listing, in the middle of its streams."""
    lines = text.splitlines()
    inside = [i for i, line in enumerate(lines) if re.match(r"  \w+ .*=", line) and any(x.startswith("stream ") for x in lines[:i])]
    return inside[len(inside) // 2]


def with_line(text, at, line):
    lines = text.splitlines()
    return "\n".join(lines[:at] + [line] + lines[at + 1 :]) + "\n"


def changed(found, key, form, text):
    """The collection with another text of one form."""
    from replay.listings import digest

    hash, about, _ = found[key][form]
    return found | {key: found[key] | {form: (digest(text), about, text)}}


def test_one_other_instruction_is_told_with_its_line(found, tmp_path):
    stored.write(found, tmp_path)
    assert difference.differing(stored.read(tmp_path), found) == ([], [], [])
    key = "jax/mlp"
    text = found[key]["trn1"][2]
    at = stream_line(text)
    line = text.splitlines()[at]
    other = re.sub(r"\d+(?=\D*$)", lambda m: str(int(m[0]) + 1), line, count=1)
    now = changed(found, key, "trn1", with_line(text, at, other))
    before = stored.read(tmp_path)
    assert difference.differing(before, now) == ([(key, ["trn1"])], [], [])
    shown = "\n".join(difference.report(before, now, *difference.differing(before, now), 24))
    assert f"line {at + 1}, in: stream " in shown and f"-{line}" in shown and f"+{other}" in shown


def test_one_other_time_and_one_other_step_are_told(found):
    for form, pattern in (("trn2", r"(time )(\d+)"), ("plan", r"(arena )(\d+)")):
        text = found["jax/mlp"][form][2]
        other, n = re.subn(pattern, lambda m: m[1] + str(int(m[2]) + 1), text, count=1)
        assert n == 1
        assert difference.differing(found, changed(found, "jax/mlp", form, other))[0] == [("jax/mlp", [form])]


def test_programs_that_come_and_go_are_told(found):
    key = next(iter(found))
    assert difference.differing({k: v for k, v in found.items() if k != key}, found) == ([], [], [key])
    assert difference.differing(found, {k: v for k, v in found.items() if k != key}) == ([], [key], [])


@pytest.mark.parametrize("how", [{"TRINE_THREADS": "1", "PYTHONHASHSEED": "1"}, {"TRINE_THREADS": "5", "PYTHONHASHSEED": "77"}, {"TRINE_ISA": "portable"}])
def test_the_same_in_every_process(found, monkeypatch, how):
    for name, value in how.items():
        monkeypatch.setenv(name, value)
    again = run.collect_in(run.ROOT, 2, "texts", FEW)
    assert difference.differing(found, again) == ([], [], [])


def test_the_users_settings_decide_nothing(found, monkeypatch, tmp_path):
    monkeypatch.setenv("NEURON_CC_FLAGS", "--auto-cast all")
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path))
    monkeypatch.setenv("TRINE_INSTANCE", "trn2.48xlarge")
    again = run.collect_in(run.ROOT, 1, "texts", FEW)
    assert difference.differing(found, again) == ([], [], [])
    assert not list(tmp_path.iterdir()), "the compile cache is not asked"


def test_what_is_stored_is_what_the_texts_say():
    from replay.listings import digest

    kept = 0
    for key, forms in stored.read().items():
        for form, (hash, _, text) in forms.items():
            if text is not None:
                assert digest(text) == hash, (key, form)
                kept += 1
    assert kept > 500


def test_every_op_is_in_the_corpus():
    """An op that is newer than the inputs may be missing; `make replay-inputs GROUP=ops` takes it in."""
    from trine import _core

    here = {c.name.split(" ")[0] for c in corpus.ops()}
    assert len(set(_core.op_names()) - here) <= len(here) // 4


def test_nothing_of_this_machine_is_in_the_texts():
    for path in stored.FOLDER.glob("*.xz"):
        text = lzma.decompress(path.read_bytes()).decode()
        assert os.path.expanduser("~") + "/" not in text and str(run.ROOT) not in text, path.name
