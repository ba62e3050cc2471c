// The race check on programs made to fool it. Each case is a pair where one detail decides.
#include "tests/run/run_text.h"

using namespace trine;
using namespace trine::run;
using arch::FaultKind;

namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Loads a tile, doubles it, stores it.
const std::string kPipeline = R"(program p
tensor a   hbm  f32[128,64] input
tensor out hbm  f32[128,64] output
tensor t   sbuf f32[128,64] at 0:0
tensor u   sbuf f32[128,64] at 0:256
stream sync
  dma_copy dst=t src=a queue=0 then s0+=16 at k.py:1
stream vector
  tensor_scalar dst=u data=t op0=multiply operand0=2 wait s0>=16 then s1+=1 at k.py:2
stream scalar
  dma_copy dst=out src=u queue=1 wait s1>=1 at k.py:3
)";

}  // namespace

TEST_CASE("a pipeline with its semaphores is clean") { CHECK(run_text(kPipeline).kinds() == ""); }

TEST_CASE("a missing wait on the load") {
  const auto r = run_text(replaced(kPipeline, "wait s0>=16 ", ""));
  CHECK(r.kinds() == "race");
  CHECK(r.only().stream == "vector");
  CHECK(r.only().operand == "data");
  CHECK(r.only().line == 2);
  CHECK(has(r.only().found, "reads t while sync's dma_copy #0 (k.py:1) may still be writing it"));
  CHECK(has(r.only().fix, "`wait s0>=16`"));
}

TEST_CASE("a wait for a value that is there before the transfer is done") {
  CHECK(run_text(replaced(kPipeline, "wait s0>=16", "wait s0>=0")).kinds() == "race");
}

TEST_CASE("a wait on another semaphore that happens to be high enough") {
  const auto r =
      run_text(replaced(replaced(kPipeline, "stream sync\n", "stream sync\n  semaphore_increment then s7+=16\n"),
                        "wait s0>=16", "wait s7>=16"));
  CHECK(r.kinds() == "race");
}

TEST_CASE("a store that does not wait for the computation") {
  const auto r = run_text(replaced(kPipeline, "wait s1>=1 ", "wait s0>=16 "));
  CHECK(r.kinds() == "race");
  CHECK(r.only().operand == "src");
  CHECK(has(r.only().found, "vector's tensor_scalar #0"));
}

TEST_CASE("who reads too early is told, even when it ran first") {
  const auto r = run_text(replaced(replaced(kPipeline, "wait s1>=1 ", ""), "stream scalar\n",
                                   "stream scalar\n  activation dst=u data=u op=copy\n"));
  CHECK(r.kinds() == "race race");
  CHECK(r.result.findings[0].stream == "scalar");
  CHECK(r.result.findings[0].operand == "data");
  CHECK(has(r.result.findings[0].found, "reads u while vector's tensor_scalar #0 (k.py:2) may still be writing it"));
  CHECK(has(r.result.findings[0].fix, "`wait s1>=1`"));
}

TEST_CASE("order is transitive through a third engine") {
  // scalar learns of the load through vector's update only.
  CHECK(run_text(replaced(kPipeline, "src=u queue=1", "src=t queue=1")).kinds() == "");
}

namespace {

// Two buffers; the load of tile i may start once tile i-2 has been used: wait s1 >= i-1.
std::string double_buffer(int64_t slack) {
  return R"(program p
tensor a   hbm  f32[8,128,64] input
tensor out hbm  f32[8,128,64] output
tensor t   sbuf f32[128,2,64] at 0:0
tensor u   sbuf f32[128,2,64] at 0:512
stream sync
  loop 4
    dma_copy dst=t[0:128, 0, 64@1] src=a[16384*i0, 128@64 64@1] queue=0 wait s1>=2*i0-)" +
         std::to_string(slack) + R"( then s0+=16
    dma_copy dst=t[0:128, 64, 64@1] src=a[8192+16384*i0, 128@64 64@1] queue=0 wait s1>=2*i0-)" +
         std::to_string(slack - 1) + R"( then s0+=16
  end_loop
stream vector
  loop 4
    tensor_copy dst=u[0:128, 0, 64@1] src=t[0:128, 0, 64@1] wait s0>=16+32*i0 s2>=32*i0 then s1+=1
    tensor_copy dst=u[0:128, 64, 64@1] src=t[0:128, 64, 64@1] wait s0>=32+32*i0 then s1+=1
  end_loop
stream scalar
  loop 4
    dma_copy dst=out[16384*i0, 128@64 64@1] src=u[0:128, 0, 64@1] queue=1 wait s1>=1+2*i0 then s2+=16
    dma_copy dst=out[8192+16384*i0, 128@64 64@1] src=u[0:128, 64, 64@1] queue=1 wait s1>=2+2*i0 then s2+=16
  end_loop
)";
}

}  // namespace

TEST_CASE("double buffering, right") {
  const auto r = run_text(double_buffer(1));
  CHECK(r.kinds() == "");
  CHECK(r.result.outputs[0].bytes == counting(r.program.tensors[0]));
}

TEST_CASE("double buffering, off by one: the next iteration's load overwrites what is still read") {
  const auto r = run_text(double_buffer(2));
  REQUIRE(!r.result.findings.empty());
  CHECK(r.result.findings[0].kind == FaultKind::race);
  bool write_after_read = false;
  for (const Finding& f : r.result.findings) write_after_read |= f.operand == "dst" && f.stream == "sync";
  CHECK(write_after_read);
}

TEST_CASE("two queues of one engine are not ordered, one queue is") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor t   sbuf f32[128,64] at 0:0
stream sync
  dma_copy dst=t src=a queue=0
  dma_copy dst=t src=a queue=1
)";
  CHECK(run_text(text).kinds() == "race");
  CHECK(run_text(replaced(text, "queue=1", "queue=0")).kinds() == "");
}

TEST_CASE("two engines on one queue are ordered only if their triggers are") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor t   sbuf f32[128,64] at 0:0
stream sync
  dma_copy dst=t src=a queue=3
  semaphore_increment then s0+=1
stream scalar
  semaphore_wait wait s0>=1
  dma_copy dst=t src=a queue=3
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, "wait s0>=1", "wait s0>=0")).kinds() == "race");
}

TEST_CASE("the engine that triggers a transfer is not ordered after it") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor t   sbuf f32[128,64] at 0:0
stream gpsimd
  memset dst=t value=1
  dma_copy dst=t src=a queue=0 then s0+=16
  memset dst=t value=2 wait s0>=16
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, " wait s0>=16", "")).kinds() == "race");
}

TEST_CASE("a PSUM bank read before the matmul is done, and overwritten before it is read") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,128] input
tensor t   sbuf f32[128,128] at 0:0
tensor u   sbuf f32[128,128] at 0:512
tensor p   psum f32[128,128] at 0:0
stream sync
  dma_copy dst=t src=a then s0+=16
stream tensor
  nc_matmul dst=p stationary=t moving=t wait s0>=16 then s1+=1
  nc_matmul dst=p stationary=t moving=t wait s2>=1
stream vector
  tensor_copy dst=u src=p wait s1>=1 then s2+=1
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(has(run_text(replaced(text, "wait s1>=1 ", "")).kinds(), "race"));
  CHECK(run_text(replaced(text, "wait s2>=1", "")).kinds() == "race");
}

TEST_CASE("interleaved strides and neighbouring partitions do not meet") {
  const std::string text = R"(program p
tensor t   sbuf f32[128,64] at 0:0
stream vector
  memset dst=t[0:128, 0, 32@2] value=1
  memset dst=t[0:32, 1, 32@2] value=1
stream gpsimd
  memset dst=t[32:32, 1, 32@2] value=2
  memset dst=t[64:64, 1, 32@2] value=2
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, "t[32:32, 1, 32@2]", "t[32:32, 1, 32@1]")).kinds() == "race");
  const auto r = run_text(replaced(text, "t[64:64, 1, 32@2]", "t[0:128, 61, 1@1]"));
  CHECK(r.kinds() == "race");
  CHECK(has(r.only().found, "in partition 0 at byte 244"));
}

TEST_CASE("HBM rows that interleave do not meet, one that reaches over does") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor b   hbm  f32[128,64]
tensor t   sbuf f32[128,64] at 0:0
stream sync
  dma_copy dst=t src=a queue=0 then s0+=16
  dma_copy dst=b[0, 64@128 64@1] src=t[0:64, 0, 64@1] queue=0 wait s0>=16
  dma_copy dst=b[64, 64@128 64@1] src=t[64:64, 0, 64@1] queue=1
)";
  CHECK(run_text(text).kinds() == "");
  const auto r = run_text(replaced(text, "dst=b[64, 64@128 64@1]", "dst=b[63, 64@128 64@1]"));
  CHECK(r.kinds() == "race");
  CHECK(has(r.only().found, "at byte 252"));
}

TEST_CASE("transposed and straight HBM walks over disjoint columns do not meet") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor b   hbm  f32[128,64]
tensor t   sbuf f32[64,128] at 0:0
stream sync
  dma_copy dst=t src=a queue=0 then s0+=16
  dma_copy dst=b[0, 32@1 128@64] src=t[0:32, 0, 128@1] queue=0 wait s0>=16
  dma_copy dst=b[32, 128@64 32@1] src=t[0:32, 0, 128@1] queue=1
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, "b[32, 128@64 32@1]", "b[31, 128@64 32@1]")).kinds() == "race");
}

TEST_CASE("a gather touches the rows its index names, and reads its index") {
  const std::string text = R"(program p
const idx hbm s32[4,1] = 0x00000000020000000400000006000000
tensor a   hbm  f32[8,64] input
tensor b   hbm  f32[8,64]
tensor i   sbuf s32[4,1] at 0:0
tensor t   sbuf f32[4,64] at 0:64
stream sync
  dma_copy dst=i src=idx queue=0 then s0+=16
  dma_copy dst=t src=a[0, 4@64 64@1] queue=0 then s0+=16
stream gpsimd
  dma_copy dst=b[0, 4@64 64@1, rows i[0:4, 0, 1@1]*64] src=t queue=1 wait s0>=32
stream scalar
  dma_copy dst=b[64, 4@128 64@1] src=t queue=2 wait s0>=32
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, "b[64, 4@128 64@1]", "b[0, 4@128 64@1]")).kinds() == "race");
  CHECK(has(run_text(replaced(text, "queue=1 wait s0>=32", "queue=1")).kinds(), "race"));
}

TEST_CASE("a semaphore that two queues raise: a half tells nothing about either") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor t   sbuf f32[128,64] at 0:0
tensor u   sbuf f32[128,64] at 0:256
tensor v   sbuf f32[128,64] at 0:512
stream sync
  dma_copy dst=t src=a queue=0 then s0+=16
  dma_copy dst=u src=a queue=1 then s0+=16
stream vector
  tensor_copy dst=v src=t wait s0>=32
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, "wait s0>=32", "wait s0>=16")).kinds() == "race");
  CHECK(run_text(replaced(replaced(text, "wait s0>=32", "wait s0>=16"), "queue=1", "queue=0")).kinds() == "");
}

TEST_CASE("what both possible raisers know is known") {
  // Either gpsimd or scalar may raise s1 first, but both have waited for the load.
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor t   sbuf f32[128,64] at 0:0
tensor v   sbuf f32[128,64] at 0:512
stream sync
  dma_copy dst=t src=a queue=0 then s0+=16
stream gpsimd
  semaphore_increment wait s0>=16 then s1+=1
stream scalar
  semaphore_increment wait s0>=16 then s1+=1
stream vector
  tensor_copy dst=v src=t wait s1>=1
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, "stream scalar\n  semaphore_increment wait s0>=16",
                          "stream scalar\n  semaphore_increment wait s0>=0"))
            .kinds() == "race");
}

TEST_CASE("taking from a semaphore and waiting for exact values") {
  const std::string text = R"(program p
tensor a   hbm  f32[128,64] input
tensor t   sbuf f32[128,64] at 0:0
tensor v   sbuf f32[128,64] at 0:512
stream sync
  loop 4
    dma_copy dst=t src=a queue=0 wait s1>=1*i0 then s0+=16
  end_loop
stream vector
  loop 4
    tensor_copy dst=v src=t wait s0==16 then s0-=16 s1+=1
  end_loop
)";
  CHECK(run_text(text).kinds() == "");
  // Unheld, the loads may all be done before the first look: 64 is not 16.
  CHECK(run_text(replaced(text, "wait s1>=1*i0 ", "")).kinds() == "deadlock");
}

TEST_CASE("waiting until a count is taken down again") {
  const std::string text = R"(program p
tensor t   sbuf f32[128,64] at 0:0
tensor v   sbuf f32[128,64] at 0:512
stream vector
  memset dst=t value=1 then s0+=2
  memset dst=t value=3 wait s0==0
stream gpsimd
  tensor_copy dst=v[0:128, 0, 32@1] src=t[0:128, 0, 32@1] wait s0>=1 then s0-=1
stream scalar
  tensor_copy dst=v[0:128, 32, 32@1] src=t[0:128, 32, 32@1] wait s0>=1 then s0-=1
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(has(run_text(replaced(text, "wait s0==0", "wait s0>=0")).kinds(), "race"));
}

TEST_CASE("setting a semaphore that others may be raising is itself a race") {
  const std::string text = R"(program p
stream vector
  semaphore_increment then s0+=1
stream gpsimd
  semaphore_set then s0=0
stream scalar
  semaphore_wait wait s0>=0
)";
  const auto r = run_text(text);
  CHECK(r.kinds() == "race");
  CHECK(has(r.only().found, "s0 is set"));
}

TEST_CASE("cores are ordered by a barrier of the same engine only") {
  const std::string text = R"(program p
cores 2
tensor a   hbm  f32[128,64] input
tensor b   hbm  f32[128,64]
tensor t   sbuf f32[128,64] at 0:0
tensor u   sbuf f32[128,64] at 1.0:0
stream sync
  dma_copy dst=t src=a queue=0 then s0+=16
  dma_copy dst=b src=t queue=0 wait s0>=16 then s1+=16
  core_barrier wait s1>=16
stream 1.sync
  core_barrier
  dma_copy dst=u src=b queue=0
)";
  CHECK(run_text(text).kinds() == "");
  CHECK(run_text(replaced(text, "core_barrier wait s1>=16", "core_barrier")).kinds() == "race");
  const auto r = run_text(replaced(text, "stream 1.sync\n  core_barrier\n", "stream 1.sync\n"));
  CHECK(has(r.kinds(), "deadlock"));
  CHECK(has(r.result.findings.back().found, "core 1, which has ended"));
}

TEST_CASE("cores that come to different meetings") {
  const auto r = run_text(R"(program p
cores 2
tensor t   sbuf f32[128,64] at 0:0
tensor u   sbuf f32[128,64] at 1.0:0
tensor v   sbuf f32[128,64] at 1.0:256
stream vector
  memset dst=t value=1
  core_barrier
stream 1.vector
  memset dst=u value=1
  sendrecv dst=v src=u send_to_rank=0 recv_from_rank=0
)");
  CHECK(r.kinds() == "collective-mismatch");
}
