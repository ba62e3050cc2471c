// The exact driver: values, waits, and each finding that is not a race (those are in exact_races.cpp).
#include "tests/run/run_text.h"

using namespace trine;
using namespace trine::run;
using arch::FaultKind;

namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

constexpr std::string_view kTensors = R"(program p
tensor a   hbm  f32[4,8] input
tensor out hbm  f32[4,8] output
tensor t   sbuf f32[4,8] at 0:0
tensor u   sbuf f32[4,8] at 0:64
)";

std::string with(std::string_view streams) { return std::string(kTensors) + std::string(streams); }

}  // namespace

TEST_CASE("a copy through SBUF gives the input back") {
  const auto r = run_text(with(R"(stream sync
  dma_copy dst=t src=a then s0+=16
stream scalar
  dma_copy dst=out src=t wait s0>=16
)"));
  CHECK(r.kinds() == "");
  CHECK(r.result.finished);
  CHECK(r.result.counts.transfers == 2);
  CHECK(r.result.counts.instructions == 2);
  CHECK(r.result.outputs[0].bytes == counting(r.program.tensors[0]));
}

TEST_CASE("loops, registers and steps place operands") {
  const auto r = run_text(with(R"(stream sync
  register_move dst=r1 src=24
  loop 3
    dma_copy dst=t[0:1, 8*i0-8*i0, 8@1] src=a[8*i0, 8@1] queue=0 then s0+=16
    dma_copy dst=out[16-8*i0, 8@1] src=t[0:1, 0, 8@1] queue=0
  end_loop
  dma_copy dst=t[0:1, 0, 8@1] src=a[r1*1, 8@1]
  dma_copy dst=out[r1*1, 8@1] src=t[0:1, 0, 8@1]
)"));
  CHECK(r.kinds() == "");
  const auto v = r.floats("out");
  CHECK(v[0] == 17);
  CHECK(v[8] == 9);
  CHECK(v[16] == 1);
  CHECK(v[31] == 32);
}

TEST_CASE("register loads are kept for the timer") {
  const auto r = run_text(R"(program p
tensor n hbm s32[4] input
stream sync
  register_load dst=r3 src=n[2, 1@1]
  register_load dst=r3 src=n[0, 1@1]
)");
  CHECK(r.result.loaded == std::vector<std::vector<uint32_t>>{{3, 1}});
}

TEST_CASE("a deadlock says who waits for what and what the value is") {
  const auto r = run_text(with(R"(stream sync
  dma_copy dst=t src=a then s0+=16
stream vector
  tensor_copy dst=u src=t wait s0>=17 then s1+=1 at k.py:7
stream scalar
  dma_copy dst=out src=u wait s1>=1
)"));
  CHECK(r.kinds() == "deadlock deadlock");
  CHECK(!r.result.finished);
  CHECK(has(r.result.findings[0].found, "vector waits for s0>=17, which is 16 (raised by sync, which has ended)"));
  CHECK(r.result.findings[0].line == 7);
  CHECK(has(r.result.findings[1].found, "scalar waits for s1>=1, which is 0 (raised by vector, which waits too)"));
}

TEST_CASE("a program that goes round for ever ends with a finding") {
  const auto r = run_text(R"(program p
stream sync
  register_move dst=r0 src=3
again:
  register_alu dst=r0 a=r0 b=1 op=bitwise_xor
  semaphore_wait wait s0>=0
  jump to=again
)");
  CHECK(r.only().kind == FaultKind::deadlock);
  CHECK(has(r.only().found, "sync goes round for ever"));
}

TEST_CASE("a program that does something new for ever ends at the step limit") {
  const auto r = run_text(R"(program p
stream sync
again:
  register_alu dst=r0 a=r0 b=1 op=add
  jump to=again
)",
                          {.steps_max = 1000});
  CHECK(has(r.only().found, "not ended after 1000 instructions"));
}

TEST_CASE("an engine that polls goes on when what it looks at changes") {
  const auto r = run_text(R"(program p
tensor n    hbm s32[4] input
tensor flag sbuf s32[1,4]
tensor late sbuf s32[1,4]
stream gpsimd
  memset dst=flag value=0 then s0+=1
again:
  register_load dst=r0 src=flag[0:1, 0, 1@1]
  branch a=r0 b=1 cmp=ne to=again
  memset dst=late value=7
stream sync
  loop 100000
    register_move dst=r1 src=0
  end_loop
  dma_copy dst=flag src=n queue=0 wait s0>=1
)");
  CHECK(r.result.finished);
  CHECK(r.kinds() == "race");  // a flag in memory orders nothing
}

TEST_CASE("a spinning engine does not keep the others from running") {
  const auto r = run_text(with(R"(stream sync
  dma_copy dst=t src=a then s0+=16
stream scalar
  dma_copy dst=out src=t wait s0>=16
stream gpsimd
again:
  jump to=again
)"));
  CHECK(r.result.counts.transfers == 2);
  CHECK(r.only().stream == "gpsimd");
}

TEST_CASE("reading what nobody wrote names the operand, the tensor and the partition") {
  const auto r = run_text(with(R"(stream vector
  tensor_copy dst=u src=t at k.py:3
stream sync
  dma_copy dst=out src=a
)"));
  CHECK(r.only().kind == FaultKind::uninitialized_read);
  CHECK(r.only().operand == "src");
  CHECK(has(r.only().found, "partition 0 of t"));
  CHECK(r.only().file == "k.py");
}

TEST_CASE("an output that is not written in full is a finding") {
  const auto r = run_text(with(R"(stream sync
  dma_copy dst=out[0, 3@8 8@1] src=a[0, 3@8 8@1]
)"));
  CHECK(r.only().kind == FaultKind::uninitialized_read);
  CHECK(r.only().operand == "out");
  CHECK(r.only().point.stream == -1);
}

TEST_CASE("an address from a register that leaves its tensor is out of bounds, with its loop index") {
  const auto r = run_text(with(R"(stream sync
  register_move dst=r0 src=0
  loop 5
    dma_copy dst=t[0:1, 0, 8@1] src=a[r0*1, 1@8 8@1] at k.py:9
    register_alu dst=r0 a=r0 b=8 op=add
  end_loop
  dma_copy dst=out src=a
)"));
  CHECK(r.only().kind == FaultKind::out_of_bounds);
  CHECK(r.only().point.loops == std::vector<int64_t>{4});
  CHECK(r.only().found == "row 0 covers bytes 128 to 160 of a, which has 128");
}

TEST_CASE("accumulating on a bank that no matmul wrote") {
  const auto r = run_text(R"(program p
tensor a hbm f32[4,8] input
tensor t sbuf f32[4,8] at 0:0
tensor p psum f32[8,8] at 0:0
stream sync
  dma_copy dst=t src=a then s0+=16
stream tensor
  nc_matmul dst=p stationary=t moving=t accumulate=add wait s0>=16
)");
  CHECK(r.only().kind == FaultKind::accumulate_uninitialized);
  CHECK(r.only().operand == "dst");
}

TEST_CASE("a NaN is a finding only when asked for") {
  const std::string text = with(R"(stream sync
  dma_copy dst=t src=a then s0+=16
  dma_copy dst=out src=u wait s1>=1
stream vector
  tensor_scalar dst=t data=t op0=multiply operand0=3e38 op1=multiply operand1=10 wait s0>=16
  tensor_tensor dst=u data1=t data2=t op=subtract then s1+=1
)");
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(text, {.trap_nan = true}).only().kind == FaultKind::nan);
}

TEST_CASE("an activation's input outside the table's range") {
  const auto r = run_text(with(R"(stream sync
  dma_copy dst=t src=a then s0+=16
  dma_copy dst=out src=u wait s1>=1
stream scalar
  activation dst=u data=t op=sin wait s0>=16 then s1+=1
)"));
  CHECK(r.only().kind == FaultKind::out_of_range_input);
}

TEST_CASE("over capacity names the first instruction that touches what does not fit") {
  const auto r = run_text(R"(program p
tensor a hbm f32[4,8] input
tensor t sbuf f32[4,50000] at 0:65536
stream sync
  semaphore_increment then s0+=1
  dma_copy dst=t[0:4, 0, 8@1] src=a at k.py:2
)");
  CHECK(r.only().kind == FaultKind::over_capacity);
  CHECK(r.only().point.index == 1);
  CHECK(r.only().line == 2);
  CHECK(has(r.only().found, "SBUF"));
  CHECK(!r.result.finished);
}

TEST_CASE("findings stop at the limit and come once per instruction") {
  const auto r = run_text(with(R"(stream vector
  loop 100
    tensor_copy dst=u src=t
  end_loop
  tensor_copy dst=u[0:4, 0, 4@1] src=t[0:4, 0, 4@1]
stream sync
  dma_copy dst=out src=a
)"),
                          {.findings_max = 1});
  CHECK(r.result.findings.size() == 1);
  CHECK(r.result.findings_dropped == 1);
}

TEST_CASE("HBM takes host memory only where it is touched") {
  const auto r = run_text(R"(program p
tensor a   hbm  f32[4,8] input
tensor big hbm  u8[64,1073741824]
tensor out hbm  f32[4,8] output
stream sync
  dma_copy dst=big:f32[15032385536, 4@8 8@1] src=a then s0+=16
  dma_copy dst=out src=big:f32[15032385536, 4@8 8@1] wait s0>=16
)");
  CHECK(r.kinds() == "");
  CHECK(r.floats("out")[31] == 32);
}

TEST_CASE("inputs are checked by name and size") {
  const auto r = run_text(with("stream sync\n  dma_copy dst=out src=a\n"));
  const auto& chip = **arch::find_chip("trn2");
  const auto in = counting(r.program.tensors[0]);
  CHECK(run_exact(r.program, chip, {}).error().message == "input a is missing");
  CHECK(!run_exact(r.program, chip, {{"a", std::span(in).subspan(1)}}));
  CHECK(!run_exact(r.program, chip, {{"a", in}, {"bias", in}}));
}

TEST_CASE("what the verifier refuses is an error, not a run") {
  auto program = arch::assemble("program p\nstream vector\n  semaphore_increment then s5000+=1\n", "t");
  REQUIRE(program);
  CHECK(!run_exact(*program, **arch::find_chip("trn2"), {}));
}

TEST_CASE("an output that is an input's storage changes it in a copy of the caller's bytes") {
  const auto r = run_text(R"(program p
tensor a hbm f32[4,8] input
tensor b hbm f32[4,8] output alias a
tensor t sbuf f32[4,8] at 0:0
stream sync
  dma_copy dst=t src=a
  dma_copy dst=b[8, 8@1] src=t[0:1, 0, 8@1]
)");
  CHECK(r.kinds() == "");
  const auto v = r.floats("b");
  CHECK(v[8] == 1);
  CHECK(v[0] == 1);
  CHECK(v[16] == 17);
}
