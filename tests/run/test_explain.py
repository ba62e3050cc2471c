"""What explain promises: heed its advice in the program's text, time it, and see whether the promise is kept."""

import json
import subprocess

import pytest


@pytest.fixture
def ask(trine):
    def run(command, text, instance):
        line = [trine, command, "-", "--instance", instance, "--json"]
        done = subprocess.run(line, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


MATMUL = """program p
tensor x hbm {dtype}[128,16384] input
tensor w sbuf {dtype}[{k},{m}] at 0:131072
tensor t sbuf {dtype}[{k},16384] at 0:0
tensor acc psum f32[{m},512] at 0:0
stream sync
  loop 4
    dma_copy dst=t[0:{k}, 4096*i0, 4096@1] src=x[4096*i0, {k}@16384 4096@1] then s0+=16
  end_loop
stream tensor
  loop 4
    loop {times}
      nc_matmul dst=acc stationary=w moving=t[0:{k}, 4096*i0+8*i1, 512@1] accumulate=overwrite wait s0>=16+16*i0
    end_loop
  end_loop
"""
COPIES = """program p
tensor x hbm f32[128,4096] input
tensor t sbuf f32[128,4096] at 0:0
stream sync
  loop {times}
    dma_copy dst=t[0:128, {n}*i0, {n}@1] src=x[{n}*i0, 128@4096 {n}@1] queue={q0} then s0+=16
    dma_copy dst=t[0:128, {n}*i0, {n}@1] src=x[{n}*i0, 128@4096 {n}@1] queue={q1} then s0+=16
  end_loop
"""
TABLES = """program p
tensor t sbuf f32[128,512] at 0:0
tensor u sbuf f32[128,512] at 0:2048
tensor v sbuf f32[128,512] at 0:4096
stream scalar
  loop 16
    activation dst=u data=t op={first}
    activation dst=v data=t op={second}
  end_loop
  loop 16
    activation dst=u data=t op={third}
    activation dst=v data=t op={fourth}
  end_loop
"""
FEW = """program p
tensor x hbm f32[{p},{n}] input
tensor t sbuf f32[{p},{n}] at 0:0
stream sync
  loop 16
    dma_copy dst=t src=x then s0+=16
  end_loop
"""
BUFFERS = """program p
tensor x hbm bf16[128,4096] input
tensor t sbuf bf16[128,4096] at 0:0
tensor u sbuf bf16[128,4096] at 0:16384
stream sync
  loop 32
    dma_copy dst=t src=x wait s1>={ahead}+1*i0 then s0+=16
  end_loop
stream scalar
  loop 32
    activation dst=u data=t op=exp wait s0>=16+16*i0 then s1+=1
  end_loop
"""
STRIDE = """program p
tensor t sbuf f32[128,8192] at 0:0
tensor u sbuf f32[128,1024] at 0:65536
stream vector
  loop 64
    tensor_copy dst=u src=t[0:128, 0, 1024@{stride}]
  end_loop
"""
SMALL = """program p
tensor t sbuf f32[128,8192] at 0:0
stream vector
  loop {times}
    memset dst=t[0:128, {n}*i0, {n}@1] value=1
  end_loop
"""

# rule, the program, the program that heeds it, how far off "about" may be
PROMISES = [
    ("tensor-f32", MATMUL.format(dtype="f32", k=128, m=128, times=448), MATMUL.format(dtype="bf16", k=128, m=128, times=448), 0.01),
    ("tensor-fill", MATMUL.format(dtype="bf16", k=128, m=64, times=448), MATMUL.format(dtype="bf16", k=128, m=128, times=224), 0.03),
    ("dma-issue", COPIES.format(n=128, times=32, q0=0, q1=1), COPIES.format(n=512, times=8, q0=0, q1=1), 0.08),
    ("dma-one-queue", COPIES.format(n=64, times=64, q0=0, q1=0), COPIES.format(n=64, times=64, q0=0, q1=1), 0.01),
    ("table-loads", TABLES.format(first="exp", second="sin", third="exp", fourth="sin"),
     TABLES.format(first="exp", second="exp", third="sin", fourth="sin"), 0.01),
    ("dma-few-engines", FEW.format(p=8, n=16384), FEW.format(p=128, n=1024), 0.06),
    ("dma-wait", BUFFERS.format(ahead=0), BUFFERS.format(ahead=-2), 0.10),
    ("sbuf-stride", STRIDE.format(stride=8), STRIDE.format(stride=1), 0.01),
    ("wide-elements", FEW.format(p=128, n=8192), FEW.format(p=128, n=8192).replace("f32", "bf16"), 0.001),
    ("small-instructions", SMALL.format(n=16, times=512), SMALL.format(n=64, times=128), None),
]  # fmt: skip


@pytest.mark.parametrize("rule, before, after, near", PROMISES, ids=[p[0] for p in PROMISES])
def test_promises(ask, rule, before, after, near, instance="trn2.3xlarge"):
    said = ask("explain", before, instance)["explain"]
    found = {a["rule"]: a for a in said["advice"]}
    assert rule in found, said
    would = found[rule]["would_ns"]
    heeded = ask("run", after, instance)["time"]["time_ns"]
    if found[rule]["at_best"]:
        assert would <= heeded * 1.001  # a bound
    if near is None:
        assert heeded < said["time_ns"]  # loops shrink too: better than promised
    else:
        assert heeded == pytest.approx(would, rel=near)


def test_what_ifs_never_lose(ask, request):
    """Taking work away never makes one of these programs slower, and the parts are ordered."""
    for program in sorted((request.config.rootpath / "src/run/accuracy").glob("matmul_*.tasm")):
        said = ask("explain", program.read_text(), "trn2.3xlarge")["explain"]
        times = [a["would_ns"] for a in said["advice"]]
        assert times == sorted(times) and all(0 < t < said["time_ns"] for t in times)
        assert said["bound"]["without_ns"] <= said["time_ns"]
        assert all(said["bound"]["without_ns"] <= i["without_ns"] * 1.01 for i in said["instructions"])
        assert len(said["instructions"]) == 3


ADDED = """program p
tensor a sbuf f32[128,512] at 0:0
tensor b {space} f32[128,512] at 0:{at}
tensor c sbuf f32[128,512] at 0:4096
stream vector
  loop 64
    tensor_tensor dst=c data1=a data2=b op=add
  end_loop
"""
TURNS = """program p
tensor t sbuf f32[128,512] at 0:0
tensor u sbuf f32[128,512] at 0:2048
tensor v sbuf f32[128,512] at 0:4096
stream scalar
  loop 100
    activation dst=u data=t op=exp
  end_loop
  activation dst=u data=t op=exp then s0+=1
stream vector
  loop {early}
    tensor_copy dst=v src=v
  end_loop
  loop {late}
    tensor_copy dst=v src=u wait s0>=1
  end_loop
"""
ONE_COPY = FEW.replace("loop 16", "loop 1")


def rules_of(said):
    return [a["rule"] for a in said["advice"]]


def test_what_is_in_psum_already_is_not_told_to_be(ask, instance="trn1.2xlarge"):
    told = ask("explain", ADDED.format(space="sbuf", at=2048), instance)["explain"]
    assert "vector-two-inputs" in rules_of(told)
    done = ask("explain", ADDED.format(space="psum", at=0), instance)["explain"]
    assert "vector-two-inputs" not in rules_of(done)


def test_bound_by_names_the_busiest_of_engines_that_take_turns(ask, instance="trn1.2xlarge"):
    """The path goes longest through the scalar engine; the vector engine works longer, part of it beside the other."""
    timed = ask("run", TURNS.format(early=60, late=70), instance)["time"]
    busy = {name: timed["engines"][name]["busy_ns"] for name in ("vector", "scalar")}
    assert busy["vector"] > busy["scalar"]
    assert timed["critical_path_ns"]["scalar"] > timed["critical_path_ns"]["vector"]
    assert timed["bound"]["by"] == "vector"
    alone = ask("run", TURNS.format(early=1, late=1), instance)["time"]
    assert alone["bound"]["by"] == "scalar"


def test_launch_is_last_where_something_else_can_be_done(ask, instance="trn2.3xlarge"):
    said = ask("explain", ONE_COPY.format(p=8, n=4096), instance)["explain"]
    launch = next(a for a in said["advice"] if a["rule"] == "launch")
    assert rules_of(said)[0] != "launch" and rules_of(said)[-1] == "launch"
    assert launch["would_ns"] < said["advice"][0]["would_ns"]  # it would save most, and comes last all the same
    bare = ask("explain", "program p\ntensor t sbuf bf16[128,512] at 0:0\nstream vector\n  memset dst=t value=1\n", instance)["explain"]
    assert rules_of(bare) == ["launch"]


BESIDE = """program p
tensor t {space} f32[128,512] at 0:0
tensor u sbuf f32[128,512] at 0:16384
tensor v sbuf f32[128,512] at 0:32768
tensor w sbuf f32[128,512] at 0:49152
stream vector
  loop 128
    tensor_copy dst=u src=t
  end_loop
stream scalar
  loop 80
    activation dst=v data=w op=exp
  end_loop
"""


@pytest.mark.parametrize("space, instance, advised", [("sbuf", "trn2.3xlarge", True), ("psum", "trn2.3xlarge", False),
                                                      ("sbuf", "trn1.2xlarge", False)])  # fmt: skip
def test_work_is_offered_to_gpsimd_only_where_it_reaches_and_has_a_port(ask, space, instance, advised):
    found = ask("explain", BESIDE.format(space=space), instance)
    assert any(a["rule"] == "engine-idle" for a in found["explain"]["advice"]) == advised
