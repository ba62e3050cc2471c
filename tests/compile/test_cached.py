"""Compiled programs in the cache: what compiles again, what does not, and that programs are the same bytes anywhere."""

import hashlib
import os
import subprocess
import sys

import pytest

from trine import _core

MLP = """graph "mlp" (%0: f32[8,64], %1: f32[64,128], %2: f32[128]) {
  %3 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[8,128]
  %4 = broadcast_in_dim %2 {broadcast_dimensions = [1]} : f32[8,128]
  %5 = add %3, %4 : f32[8,128]
  %6 = tanh %5 : f32[8,128]
  return %6
}"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    monkeypatch.setenv("NEURON_CC_FLAGS", "")
    return tmp_path / "cache"


def entries(folder):
    return sorted(folder.rglob("*.entry"))


def test_the_second_time_nothing_is_compiled(cache):
    first = _core.compile_device(MLP.encode(), "trn1", weights=[1, 2])
    again = _core.compile_device(MLP.encode(), "trn1", weights=[1, 2])
    assert (first.found, again.found, len(entries(cache))) == (False, True, 1)
    assert again.program.disassemble() == first.program.disassemble()
    assert again.input_count == 3


def test_parts_and_collectives_are_found_as_they_were_made(cache):
    text = """graph "parts" (%0: f32[4,4]) {
  %1 = all_reduce %0 {replica_groups = s64[1,2] x00000000000000000100000000000000, use_global_device_ids = true} (%2: f32[], %3: f32[]) {
    %4 = add %2, %3 : f32[]
    return %4
  } : f32[4,4]
  %5 = cholesky %1 : f32[4,4]
  %6 = tanh %5 : f32[4,4]
  return %6
}"""
    first, again = (_core.compile_device(text.encode(), "trn2") for _ in range(2))
    assert (first.found, again.found, len(entries(cache))) == (False, True, 1)
    assert [h["op"] for h in again.host_placed] == [h["op"] for h in first.host_placed] == ["cholesky"]
    assert again.collectives == first.collectives and again.collectives[0]["kind"] == "all_reduce"
    assert [p["reads"] for p in again.parts] == [p["reads"] for p in first.parts]


def test_what_decides_a_program_is_in_its_key(cache):
    hashes = {
        _core.compile_device(text.encode(), chip, cast, "bf16", weights).hash
        for text in (MLP, MLP.replace("tanh", "negate"))
        for chip in ("trn1", "trn2")
        for cast in ("none", "matmult")
        for weights in ([], [1])
    }
    assert len(hashes) == 16


def test_a_chip_of_ones_own_is_another_chip(cache):
    small = '{"name": "small", "title": "small", "like": "trn1", "sbuf": {"bytes_per_partition": {"is": 65536, "from": "test"}}}'
    hashes = {_core.compile_device(MLP.encode(), chip).hash for chip in ("trn1", small, small.replace("65536", "32768"))}
    assert len(hashes) == 3


def test_a_torn_entry_is_made_again(cache):
    _core.compile_device(MLP.encode(), "trn1")
    (entry,) = entries(cache)
    entry.write_bytes(entry.read_bytes()[:-7])
    assert not _core.compile_device(MLP.encode(), "trn1").found
    assert _core.compile_device(MLP.encode(), "trn1").found


def test_flags_name_the_folder_and_win(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("NEURON_CC_FLAGS", f"--auto-cast none --cache_dir={tmp_path}/flags")
    _core.compile_device(MLP.encode(), "trn1")
    assert entries(tmp_path / "flags") and not cache.exists()
    monkeypatch.setenv("NEURON_CC_FLAGS", "--no_cache")
    assert _core.compile_device(MLP.encode(), "trn1").hash == ""


def test_a_cache_that_cannot_be_used_only_costs_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("NEURON_CC_FLAGS", "")
    made = _core.compile_device(MLP.encode(), "trn1")
    assert not made.found and "file" in made.trouble


COMPILE = "import sys; from trine import _core; c = _core.compile_device(sys.stdin.buffer.read(), 'trn2', 'matmult', 'bf16', [1]); print(c.found)"


def test_those_who_wait_do_not_compile(cache):
    deep = MLP
    for i in range(6, 200):  # long enough that the others come to wait
        deep = deep.replace(f"  return %{i}", f"  %{i + 1} = {'tanh' if i % 2 else 'sine'} %{i} : f32[8,128]\n  return %{i + 1}")
    runs = [subprocess.Popen([sys.executable, "-c", COMPILE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for r in runs:
        r.stdin.write(deep)
        r.stdin.close()
    assert sorted(r.stdout.read().strip() for r in runs) == ["False", "True", "True"]
    assert [r.wait() for r in runs] == [0, 0, 0]


def test_a_changed_weight_or_adapter_compiles_nothing(cache):
    jax = pytest.importorskip("jax")
    import numpy as np

    import trine

    def layer(x, w, a, b):  # a LoRA adapter beside a weight
        return jax.nn.gelu(x @ w + (x @ a) @ b)

    rng = np.random.default_rng(0)
    times = set()
    for _ in range(3):
        args = [rng.standard_normal(s).astype(np.float32) for s in ((8, 64), (64, 64), (64, 4), (4, 64))]
        times.add(trine.report(jax.jit(layer), *args, instance="trn1.2xlarge").time_ns)
    assert len(entries(cache)) == 1 and len(times) == 1


BYTES = "import sys; from trine import _core; c = _core.compile_device(sys.stdin.buffer.read(), sys.argv[1], 'matmult', 'bf16', [1]); c.program.save(sys.argv[2])"


def tiny_training_step():
    pytest.importorskip("jax")
    from trine import models
    from trine.estimate import stablehlo

    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
    work = models.phase(models.build({"model_type": "llama", "max_position_embeddings": 64, **sizes}), "train", 1, 8)
    return stablehlo(work.function, *work.shapes)


@pytest.mark.parametrize(("chip", "program"), [("trn1", MLP.encode), ("trn3", tiny_training_step)])
def test_programs_are_the_same_bytes_in_every_process(chip, program, tmp_path):
    """Threads, hash seeds and address spaces differ; the program does not."""
    artifact, sums = program(), set()
    for seed, threads in (("1", "1"), ("77", "4")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "TRINE_THREADS": threads, "NEURON_CC_FLAGS": "--no_cache"}
        out = tmp_path / f"{seed}.trn"
        subprocess.run([sys.executable, "-c", BYTES, chip, str(out)], input=artifact, env=env, check=True)
        sums.add(hashlib.sha256(out.read_bytes()).hexdigest())
    assert len(sums) == 1
