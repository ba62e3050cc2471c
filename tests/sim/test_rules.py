"""One rule of the timing model a test: two programs that differ in one thing, and the difference the rule gives."""

import json
import subprocess

import pytest

from trine import _core

INSTANCE = {"trn1": "trn1.2xlarge", "trn2": "trn2.3xlarge", "trn3": "trn3-gen1-ultraserver"}
NUMBERS = {}
HEAD = """program p
tensor h hbm f32[128,4096] input
tensor acc psum f32[128,512] at 0:0
tensor acc1 psum f32[128,512] at 0:2048
tensor w sbuf f32[128,128] at 0:0
tensor wb sbuf bf16[128,128] at 0:512
tensor a sbuf f32[128,512] at 0:1024
tensor b sbuf f32[128,512] at 0:3072
tensor c sbuf f32[128,512] at 0:5120
tensor d sbuf f32[128,512] at 0:7168
tensor e sbuf bf16[128,512] at 0:9216
tensor f sbuf bf16[128,512] at 0:10240
tensor big sbuf f32[128,4096] at 0:16384
"""


@pytest.fixture(autouse=True)
def numbers(trine):
    """Every number of every chip, as `trine chips --json` prints them."""
    if not NUMBERS:
        out = subprocess.run([trine, "chips", "--json", "--all"], capture_output=True, text=True, check=True).stdout
        NUMBERS.update({chip["name"]: chip["numbers"] for chip in json.loads(out)["chips"]})


def number(chip, path):
    value = NUMBERS[chip][path]
    return value["is"] if isinstance(value, dict) else value


def ns(chip, *streams, head=HEAD):
    """Time of the streams, each `engine: line; line`, from launch to teardown."""
    text = head
    for stream in streams:
        engine, lines = stream.split(":", 1)
        text += f"stream {engine}\n" + "".join(f"  {line.strip()}\n" for line in lines.split(";"))
    return _core.time(_core.assemble(text), INSTANCE[chip]).time_fs / 1e6


def repeat(line, count):
    return "; ".join([line] * count)


@pytest.mark.parametrize("chip", INSTANCE)
def test_independent_instructions_follow_after_their_interval(chip):
    one, nine = (ns(chip, "vector:" + "; ".join(["tensor_copy dst=a src=b", "tensor_copy dst=c src=d"][i % 2] for i in range(n))) for n in (1, 9))
    cycles = 512 + number(chip, "vector.access_cycles")
    assert nine - one == pytest.approx(8 * cycles / number(chip, "vector.clock_ghz"), rel=1e-6)


@pytest.mark.parametrize("chip", INSTANCE)
def test_a_dependent_instruction_waits_for_the_result(chip):
    apart = ns(chip, "vector: memset dst=a value=0; memset dst=b value=0")
    chained = ns(chip, "vector: memset dst=a value=0; tensor_copy dst=b src=a")
    assert chained - apart == pytest.approx(number(chip, "vector.latency_cycles") / number(chip, "vector.clock_ghz"), rel=1e-6)


# The weight load hides behind the multiply before it, but NeuronCore-v2 stops for weights of f32.
@pytest.mark.parametrize("chip, dtype, cycles", [("trn1", "f32", 4 * (512 + 128)), ("trn2", "f32", 4 * 512), ("trn1", "bf16", 512)])
def test_a_matmul_takes_its_passes(chip, dtype, cycles):
    w, x = ("w", "a") if dtype == "f32" else ("wb", "e")
    line = f"nc_matmul dst=acc stationary={w} moving={x} accumulate=overwrite"
    few, many = (ns(chip, "tensor:" + repeat(line, n)) for n in (20, 120))
    assert (many - few) / 100 == pytest.approx(cycles / number(chip, "tensor.clock_ghz"), rel=1e-6)


def test_an_exposed_weight_load_costs_its_columns():
    # with only 64 columns moving, 128 f32 columns of weights at one a cycle and pass do not hide
    line = "nc_matmul dst=acc[0:128, 0, 64@1] stationary=w moving=a[0:128, 0, 64@1] accumulate=overwrite"
    few, many = (ns("trn2", "tensor:" + repeat(line, n)) for n in (40, 140))
    assert (many - few) / 100 == pytest.approx(4 * 128 / 2.4, rel=1e-2)  # the limiter comes and goes at half the rate


def test_matmuls_on_parts_of_the_array_run_side_by_side():
    def quarter(row, column):
        return (f"nc_matmul dst=acc[{column}:32, 0, 512@1] stationary=wb[{row}:32, 0, 32@1] moving=e[{row}:32, 0, 512@1] "
                f"tile_position=[{row},{column}] tile_size=[32,32]")
    apart = "; ".join(quarter(32 * (i % 4), 32 * (i % 4)) for i in range(40))
    same = "; ".join(quarter(0, 0) for _ in range(40))
    idle = ns("trn2", "tensor: semaphore_increment then s0+=1")
    assert (ns("trn2", "tensor:" + same) - idle) / (ns("trn2", "tensor:" + apart) - idle) > 3


def test_the_limiter_slows_the_first_matmuls_of_chips_that_have_it():
    line = "nc_matmul dst=acc stationary=w moving=a accumulate=overwrite"
    for chip, slowed in (("trn1", False), ("trn2", True), ("trn3", True)):
        clock = number(chip, "tensor.clock_ghz")
        first = ns(chip, "tensor:" + line) - ns(chip, "tensor: semaphore_increment then s0+=1")
        assert (first > 1.5 * 2048 / clock) == slowed
        steady = ns(chip, "tensor:" + repeat(line, 60)) - ns(chip, "tensor:" + repeat(line, 50))
        assert steady == pytest.approx(10 * (2560 if chip == "trn1" else 2048) / clock, rel=1e-6)


def test_the_limiter_engages_again_after_idling():
    matmuls = repeat("nc_matmul dst=acc stationary=w moving=a accumulate=overwrite", 8)
    vector = "vector:" + repeat("memset dst=big value=0", 3) + "; memset dst=b value=0 then s0+=1"  # 13 µs
    resumed = f"tensor: {matmuls}; semaphore_wait wait s0>=1; {matmuls}"
    straight = f"tensor: {matmuls}; {matmuls}"
    idle = ns("trn2", vector) - ns("trn2", "vector: semaphore_increment then s0+=1")
    assert ns("trn2", resumed, vector) > idle + 18_000 + 8 * 2048 / 2.4 + 500
    assert ns("trn2", straight, vector) < ns("trn2", resumed, vector)


@pytest.mark.parametrize("chip, loads", [("trn1", 6), ("trn2", 6), ("trn3", 6)])
def test_switching_activation_tables_costs_a_load(chip, loads):
    same = repeat("activation dst=b data=a op=exp", 6)
    switching = "; ".join(f"activation dst=b data=a op={op}" for op in ["exp", "gelu"] * 3)
    difference = ns(chip, "scalar:" + switching) - ns(chip, "scalar:" + same)
    assert difference == pytest.approx((loads - 1) * number(chip, "scalar.table_load_ns"), rel=0.2)


@pytest.mark.parametrize("chip, shared", [("trn1", True), ("trn2", False)])
def test_vector_and_gpsimd_share_the_sbuf_port_on_v2(chip, shared):
    vector, gpsimd = "vector:" + repeat("memset dst=a value=1", 40), "gpsimd:" + repeat("memset dst=c value=1", 40)
    together, alone = ns(chip, vector, gpsimd) - 18_000, max(ns(chip, vector), ns(chip, gpsimd)) - 18_000
    assert (together > 1.4 * alone) == shared


def test_one_ring_turns_around_two_overlap():
    copies = ["dma_copy dst=a[0:128, 0, 8@1] src=h[0, 128@4096 8@1] queue={} dge=none then s0+=16"] * 16
    one = ns("trn2", "sync:" + "; ".join(c.format(0) for c in copies))
    two = ns("trn2", "sync:" + "; ".join(c.format(i % 2) for i, c in enumerate(copies)))
    assert one - two == pytest.approx(7.5 * number("trn2", "dma.ring_turnaround_ns"), rel=0.15)


def test_descriptor_generation_is_one_at_a_time():
    few, many = (ns("trn2", "sync:" + "; ".join(f"dma_copy dst=a[0:128, 0, 8@1] src=h[0, 128@4096 8@1] queue={i % 8} dge=hwdge then s0+=16" for i in range(n))) for n in (8, 24))
    assert (many - few) / 16 == pytest.approx(number("trn2", "dma.hwdge_issue_ns"), rel=1e-3)


def test_a_transfer_is_striped_over_the_engines_by_partition():
    def load(rows):
        return ns("trn2", f"sync: dma_copy dst=big[0:{rows}, 0, 4096@1] src=h[0, {rows}@4096 4096@1] then s0+=16")
    assert load(128) == pytest.approx(load(8), rel=1e-3)  # 8 partitions an engine
    assert load(8) - load(4) == pytest.approx(4 * 16384 / number("trn2", "dma.rate_bytes_per_ns"), rel=0.02)


def test_rows_of_hbm_that_lie_far_apart_cost_more_a_descriptor():
    head = HEAD + "tensor wide hbm f32[128,262144] input\n"
    near, far = (ns("trn1", f"sync: dma_copy dst=a src=wide[0, 128@{stride} 512@1] then s0+=16", head=head) for stride in (12288, 262144))
    more = number("trn1", "dma.descriptor_far_ns") - number("trn1", "dma.descriptor_strided_ns")
    assert far - near == pytest.approx(7 * more, rel=1e-6)  # of eight rows an engine the first follows nothing


TWO_CORES = """program p
cores 2
tensor x hbm f32[128,4096] input
tensor a0 sbuf f32[128,4096] at 0.0:0
tensor a1 sbuf f32[128,4096] at 1.0:0
"""


def test_cores_meet_when_the_last_has_come():
    text = TWO_CORES + "stream 0.vector\n  core_barrier\n  memset dst=a0 value=0\nstream 1.vector\n" + "  memset dst=a1 value=0\n" * 5 + "  core_barrier\n"
    alone = TWO_CORES.replace("cores 2\n", "").replace("tensor a1 sbuf f32[128,4096] at 1.0:0\n", "").replace("0.0:0", "0:0")
    five = _core.time(_core.assemble(alone + "stream vector\n" + "  memset dst=a0 value=0\n" * 5), INSTANCE["trn2"]).time_fs / 1e6
    six = _core.time(_core.assemble(alone + "stream vector\n" + "  memset dst=a0 value=0\n" * 6), INSTANCE["trn2"]).time_fs / 1e6
    both = _core.time(_core.assemble(text), INSTANCE["trn2"])
    assert not both.findings
    assert six < both.time_fs / 1e6 < six + (six - five)


def test_a_core_that_never_comes_is_a_deadlock():
    text = TWO_CORES + "stream 0.vector\n  core_barrier\nstream 1.vector\n  memset dst=a1 value=0\n"
    assert "other cores" in _core.time(_core.assemble(text), INSTANCE["trn2"]).findings[0]


def test_two_cores_share_their_hbm_stack():
    one = TWO_CORES + "stream 0.sync\n" + "  dma_copy dst=a0 src=x then s0+=16\n" * 8
    two = one + "stream 1.sync\n" + "  dma_copy dst=a1 src=x then s0+=16\n" * 8
    report = [_core.time(_core.assemble(t), INSTANCE["trn2"]).report() for t in (one, two)]
    assert report[1]["hbm_read_bytes"] == 2 * report[0]["hbm_read_bytes"]
    # 2 x 16 engines ask for 736 GB/s, the stack gives 716
    slower = (report[1]["time_ns"] - 18000) / (report[0]["time_ns"] - 18000)
    assert slower == pytest.approx(2 * 16 * 23 / 716, rel=0.02)
