"""What must hold of every timing: jumping changes nothing, no engine is busier than the clock, same input same time."""

import sys
from pathlib import Path

import pytest

from trine import _core

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
import pipelines  # noqa: E402

CHIPS = {"trn1.2xlarge": "trn1", "trn2.3xlarge": "trn2", "trn3-gen1-ultraserver": "trn3"}
INSTANCES = list(CHIPS)
CORPUS = sorted([*(ROOT / "src/run/accuracy").glob("*.tasm"), *(ROOT / "tests/run").glob("*.tasm")])


def both(program, instance):
    jumped, walked = (_core.time(program, instance, jump=jump) for jump in (True, False))
    assert jumped.time_fs == walked.time_fs
    assert jumped.report() == walked.report()
    return jumped, walked


def check(program, instance):
    jumped, walked = both(program, instance)
    report = jumped.report()
    assert not jumped.findings
    assert walked.jumped == 0
    assert abs(sum(report["critical_path_ns"].values()) - report["time_ns"]) < 1e-3
    for engine in report["engines"].values():
        assert 0 <= engine["busy_ns"] <= report["time_ns"] * report["cores"]
    assert _core.time(program, instance).time_fs == jumped.time_fs
    return jumped


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_corpus(path, instance):
    program = _core.assemble(path.read_text(), str(path))
    if illegal := program.verify(CHIPS[instance]):
        pytest.skip(f"not for this chip: {illegal[0]}")
    check(program, instance)


@pytest.mark.parametrize("seed", range(150))
def test_pipelines(seed):
    program = _core.assemble(pipelines.program(seed))
    check(program, INSTANCES[seed % 3])


def test_pipelines_are_really_jumped():
    jumped = sum(_core.time(_core.assemble(pipelines.program(s)), "trn2.3xlarge").jumped > 0 for s in range(60))
    assert jumped > 20


def test_a_longer_loop_takes_longer():
    text = "program p\ntensor x sbuf f32[128,512] at 0:0\nstream vector\n  loop {}\n    memset dst=x value=0\n  end_loop\n"
    times = [_core.time(_core.assemble(text.format(n)), "trn2.3xlarge").time_fs for n in (1, 10, 1000, 100000)]
    assert times == sorted(times) and len(set(times)) == 4


def test_times_have_not_moved(golden):
    """Replay: a change that moves a time shows it here; `--update` accepts it."""
    lines = []
    for path in CORPUS:
        program = _core.assemble(path.read_text(), str(path))
        for instance, chip in CHIPS.items():
            if not program.verify(chip):
                lines.append(f"{path.stem} {instance} {_core.time(program, instance).time_fs}")
    golden("times.txt", "\n".join(lines) + "\n")
