"""What programs may take: ops, time and memory have limits, and none of them ends in an abort."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

LOOPS = 8
PROGRAM = Path(__file__).parents[2] / "src/run/accuracy/dma_128x128.tasm"


@pytest.fixture
def trine(request, tmp_path):
    def run(*words, code=0, memory=None, **more):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))) if memory else None
        done = subprocess.run([request.config.trine, *map(str, words)], cwd=tmp_path, env={**os.environ, **more}, capture_output=True,
                              text=True, timeout=120, preexec_fn=limit)  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    run.folder = tmp_path
    return run


def bomb(doublings):
    """A function that calls another twice, which calls another twice …"""
    t = "(tensor<4xf32>) -> tensor<4xf32>"
    text = f"func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{ %0 = call @f{doublings}(%x) : {t}  return %0 : tensor<4xf32> }}\n"
    for i in range(1, doublings + 1):
        text += (f"func.func private @f{i}(%x: tensor<4xf32>) -> tensor<4xf32> {{ %0 = call @f{i - 1}(%x) : {t}\n"
                 f" %1 = call @f{i - 1}(%0) : {t}  return %1 : tensor<4xf32> }}\n")  # fmt: skip
    return f"module {{ {text} func.func private @f0(%x: tensor<4xf32>) -> tensor<4xf32> {{ %0 = stablehlo.sine %x : tensor<4xf32>  return %0 : tensor<4xf32> }} }}"


def nested(depth, value="%x"):
    """Loops of a million steps in one another."""
    if not depth:
        return f"%r = stablehlo.add {value}, %one : tensor<i32>\n", "%r"
    inner, last = nested(depth - 1, f"%a{depth}")
    return f"""%l{depth}:2 = stablehlo.while(%i{depth} = %zero, %a{depth} = {value}) : tensor<i32>, tensor<i32>
      cond {{ %c{depth} = stablehlo.compare LT, %i{depth}, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c{depth} : tensor<i1> }}
      do {{ {inner} %j{depth} = stablehlo.add %i{depth}, %one : tensor<i32>
        stablehlo.return %j{depth}, {last} : tensor<i32>, tensor<i32> }}\n""", f"%l{depth}#1"


def test_calls_that_double(trine):
    (trine.folder / "bomb.stablehlo").write_text(bomb(19))
    refused = trine("compile", "bomb.stablehlo", "-o", "b.trn", code=3)
    assert "more than 262144 ops once calls are written out; TRINE_OPS allows more" in refused.stderr
    (trine.folder / "few.stablehlo").write_text(bomb(4))
    assert "more than 8 ops" in trine("compile", "few.stablehlo", code=3, TRINE_OPS="8").stderr
    trine("compile", "few.stablehlo")


def test_limits_of_time(trine):
    body, last = nested(LOOPS)
    (trine.folder / "loops.stablehlo").write_text(f"""module {{ func.func public @main(%x: tensor<i32>) -> tensor<i32> {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<1000000> : tensor<i32>
      {body} return {last} : tensor<i32> }} }}""")
    trine("compile", "loops.stablehlo", "-o", "loops.trn")
    assert "stopped after 0.5 s of timing, by TRINE_RUN_SECONDS" in trine("run", "loops.trn", code=3, TRINE_RUN_SECONDS="0.5").stderr
    native = trine("run", "loops.trn", "--native", code=3, TRINE_RUN_SECONDS="0.5")
    assert "stopped after 0.5 s of running, by TRINE_RUN_SECONDS" in native.stderr
    (trine.folder / "long.stablehlo").write_text(bomb(15))
    slow = trine("compile", "long.stablehlo", code=3, TRINE_COMPILE_SECONDS="0.01", NEURON_CC_FLAGS="--no_cache")
    assert "stopped after 0.01 s of compiling, by TRINE_COMPILE_SECONDS" in slow.stderr


def test_limits_that_are_none(trine):
    assert "TRINE_OPS is `many`; expected a number, 0 for no limit" in trine("ls", code=3, TRINE_OPS="many").stderr
    assert "TRINE_RUN_SECONDS is `-1`" in trine("ls", code=3, TRINE_RUN_SECONDS="-1").stderr


@pytest.mark.parametrize("megabytes", [60, 90, 120])
def test_out_of_memory_is_an_error(request, trine, megabytes):
    if "asan" in str(request.config.trine):
        pytest.skip("a sanitizer takes terabytes of addresses")
    (trine.folder / "many.stablehlo").write_text(bomb(16))
    done = trine("compile", "many.stablehlo", code=4, memory=megabytes << 20, NEURON_CC_FLAGS="--no_cache")
    assert "this machine has too little memory left" in done.stderr


def test_a_file_without_a_program(trine):
    for name in ("empty.tasm", "blank.tasm"):
        (trine.folder / name).write_text("" if name == "empty.tasm" else "\n  \n")
        for command in ("run", "explain", "asm"):
            assert f"{name}: found nothing; expected a program's text" in trine(command, name, code=3).stderr
    (trine.folder / "empty.onnx").write_text("")
    assert "found nothing; expected a ModelProto" in trine("onnx", "empty.onnx", code=3).stderr


def test_outputs_go_where_they_are_sent(trine):
    """A pipe stays a pipe, a link a link; `-o /dev/null` as root once replaced the device."""
    shutil.copy(PROGRAM, trine.folder / "p.tasm")
    os.symlink("real.prg", trine.folder / "link.prg")
    trine("asm", "p.tasm", "-o", "link.prg")
    assert (trine.folder / "link.prg").is_symlink() and (trine.folder / "real.prg").stat().st_size > 0
    os.mkfifo(trine.folder / "pipe")
    reader = os.open(trine.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    trine("asm", "p.tasm", "-o", "pipe")
    assert os.read(reader, 8) == b"TRINEPRG" and (trine.folder / "pipe").is_fifo()
    os.close(reader)
    before = os.stat("/dev/null")
    trine("asm", "p.tasm", "-o", "/dev/null")
    assert os.stat("/dev/null").st_rdev == before.st_rdev
