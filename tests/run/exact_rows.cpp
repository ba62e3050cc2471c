// What the exact driver finds in programs that misuse the tensor engine, DMA and meetings.
#include "base/text.h"
#include "tests/run/run_text.h"

using namespace trine;
using namespace trine::run;

namespace {

constexpr std::string_view kMatmul =
    "program p\n"
    "tensor a hbm f32[32,32] input\n"
    "tensor out hbm f32[32,32] output\n"
    "tensor t sbuf f32[32,32]\n"
    "tensor p psum f32[32,32]\n"
    "stream sync\n"
    "  dma_copy dst=t src=a then s0+=16\n"
    "  dma_copy dst=out src=t wait s2>=1\n";

std::string matmul(std::string_view tensor_lines, std::string_view vector_lines = "") {
  return cat(kMatmul, "stream tensor\n", tensor_lines, "stream vector\n", vector_lines,
             "  tensor_copy dst=t src=p wait s1>=1 then s2+=1\n");
}

std::string two_cores(std::string_view first, std::string_view second, std::string_view kind_of_d = "") {
  return cat("program p\ncores 2\ntensor a hbm f32[4,8] input\ntensor b hbm f32[4,8]\ntensor c hbm f32[4,8]\n",
             "tensor d hbm f32[8,8] ", kind_of_d, "\nstream 0.sync\n  ", first, "\nstream 1.sync\n  ", second, "\n");
}

}  // namespace

TEST_CASE("adding to PSUM that nobody started is found on every chip") {
  const auto text = matmul("  nc_matmul dst=p stationary=t moving=t accumulate=add wait s0>=16 then s1+=1\n");
  for (const char* chip : {"trn1", "trn2", "trn3"})
    CHECK_EQ(run_text(text, {}, chip).kinds().find("accumulate-uninitialized"), 0);
}

TEST_CASE("adding to what Vector wrote is found before NeuronCore-v3 only") {
  const auto text = matmul("  nc_matmul dst=p stationary=t moving=t accumulate=add wait s3>=1 then s1+=1\n",
                           "  memset dst=p value=1 then s3+=1 wait s0>=16\n");
  CHECK_EQ(run_text(text, {}, "trn1").only().kind, arch::FaultKind::accumulate_uninitialized);
  for (const char* chip : {"trn2", "trn3"}) CHECK_EQ(run_text(text, {}, chip).kinds(), "");
}

TEST_CASE("transpose mode needs an identity") {
  const auto text = matmul("  nc_matmul dst=p stationary=t moving=t is_transpose=true wait s0>=16 then s1+=1\n");
  CHECK_EQ(run_text(text).result.findings.at(0).kind, arch::FaultKind::out_of_range_input);
}

TEST_CASE("a gather past the table is an error, or is skipped") {
  const std::string head =
      "program p\ntensor a hbm f32[4,8] input\ntensor i hbm s32[4,1] input\ntensor out hbm f32[4,8] output\n"
      "tensor t sbuf f32[4,8]\ntensor x sbuf s32[4,1]\nstream sync\n  dma_copy dst=x src=i then s0+=16\n"
      "  dma_copy dst=out src=t wait s2>=16\nstream vector\n  memset dst=t value=7 then s1+=1\nstream gpsimd\n"
      "  dma_copy dst=t src=a[0, 4@8 8@1, rows x*8] wait s0>=16 s1>=1 then s2+=16";
  const TextRun stopped = run_text(head + "\n");
  CHECK_EQ(stopped.only().kind, arch::FaultKind::out_of_bounds);
  CHECK_EQ(stopped.only().operand, "src");
  const TextRun skipped = run_text(head + " oob=skip\n");
  CHECK_EQ(skipped.kinds(), "");
  for (const TextRun* r : {&stopped, &skipped}) {  // the indices are 1, 2, 3, 4 of a table of 4
    CHECK_EQ(r->floats("out")[0], 9);
    CHECK_EQ(r->floats("out")[23], 32);
    CHECK_EQ(r->floats("out")[24], 7);
  }
}

TEST_CASE("dma_compute finds a row that is named twice") {
  const TextRun r = run_text(
      "program p\ntensor a hbm f32[8,8] input\ntensor out hbm f32[8,8] output\ntensor t sbuf f32[4,8]\n"
      "tensor x sbuf s32[4,1]\nstream sync\n  dma_copy dst=t src=a[0, 4@8 8@1] then s0+=16\n"
      "  dma_copy dst=out src=a then s0+=16\nstream vector\n  memset dst=x value=3 then s1+=1\nstream gpsimd\n"
      "  dma_compute dst=out[0, 4@8 8@1, rows x*8] src0=out[0, 4@8 8@1, rows x*8] src1=t wait s0>=32 s1>=1\n");
  CHECK_EQ(r.only().kind, arch::FaultKind::race);
  CHECK_NE(r.only().found.find("row 3 is named twice"), std::string::npos);
}

TEST_CASE("cores that meet for different things are found") {
  const std::string all = "collective dst=b src=a kind=all_reduce";
  CHECK_EQ(run_text(two_cores(all, "collective dst=c src=a kind=all_reduce")).kinds(), "");
  CHECK_EQ(run_text(two_cores(all, "collective dst=c src=a kind=all_reduce op=max")).kinds(), "collective-mismatch");
  CHECK_EQ(run_text(two_cores(all, "collective dst=c src=a kind=broadcast")).kinds(), "collective-mismatch");
  CHECK_EQ(run_text(two_cores(all, "core_barrier")).kinds(), "collective-mismatch");
  CHECK_EQ(run_text(two_cores("core_barrier", all)).kinds(), "collective-mismatch");
  CHECK_EQ(run_text(two_cores(all, "collective dst=c[0, 2@8 8@1] src=a[0, 2@8 8@1] kind=all_reduce")).kinds(),
           "collective-mismatch");
}

TEST_CASE("a core that never comes is a deadlock") {
  const TextRun r = run_text(two_cores("core_barrier", "dma_copy dst=b src=a"));
  CHECK_EQ(r.only().kind, arch::FaultKind::deadlock);
  CHECK_NE(r.only().found.find("waits to meet"), std::string::npos);
}

TEST_CASE("a barrier orders what the cores do before and after it") {
  const std::string barrier = "core_barrier wait s0>=16 then s1+=1\n  ";
  const TextRun r = run_text(two_cores(
      cat("dma_copy dst=c src=a then s0+=16\n  ", barrier, "dma_copy dst=b src=c"),
      cat("dma_copy dst=d[0, 4@8 8@1] src=a then s0+=16\n  ", barrier, "dma_copy dst=d[32, 4@8 8@1] src=c"), "output"));
  CHECK_EQ(r.kinds(), "");
  CHECK_EQ(r.floats("d")[32], 1);
  const TextRun raced = run_text(two_cores("dma_copy dst=c src=a", "dma_copy dst=d[32, 4@8 8@1] src=c"));
  CHECK_NE(raced.kinds().find("race"), std::string::npos);
}
