// Programs made ready and run many times: what was settled once is not looked at again, and nothing else changes.
#include "base/text.h"
#include "tests/run/run_text.h"

using namespace trine;
using namespace trine::run;

namespace {

// A program that is kept, and inputs by name.
struct Reused {
  arch::Program program;
  std::shared_ptr<const ExactProgram> ready;

  explicit Reused(std::string_view text) {
    auto read = arch::assemble(text, "test.tasm");
    const std::string problem = read ? "" : read.error().text();
    REQUIRE(problem == "");
    program = *std::move(read);
    auto made = ExactProgram::make(program, **arch::find_chip("trn2"));
    REQUIRE(made);
    ready = *std::move(made);
  }
  // Every s32 input is `indices`; the f32 ones count from 1.
  TextRun run(const std::vector<int32_t>& indices = {}, const ExactOptions& options = {}) const {
    std::map<std::string, std::vector<std::byte>> bytes;
    Inputs inputs;
    for (const arch::Tensor& t : program.tensors) {
      if (t.kind != arch::TensorKind::input) continue;
      bytes[t.name] = counting(t);
      if (t.dtype == Dtype::s32) std::memcpy(bytes[t.name].data(), indices.data(), indices.size() * 4);
      inputs[t.name] = bytes[t.name];
    }
    auto result = ready->run(inputs, options);
    REQUIRE(result);
    return {program, *std::move(result)};
  }
};

constexpr std::string_view kGather =
    "program p\ntensor a hbm f32[4,8] input\ntensor i hbm s32[4,1] input\ntensor out hbm f32[4,8] output\n"
    "tensor t sbuf f32[4,8]\ntensor x sbuf s32[4,1]\nstream sync\n  dma_copy dst=x src=i then s0+=16\n"
    "  dma_copy dst=out src=t wait s2>=16\nstream gpsimd\n"
    "  dma_copy dst=t src=a[0, 4@8 8@1, rows x*8] wait s0>=16 then s2+=16";

// A scatter of rows of t into b, beside a write of b's first row.
std::string scatter(std::string_view first_row_waits, std::string_view of_b = "output") {
  return cat("program p\ntensor a hbm f32[2,8] input\ntensor i hbm s32[2,1] input\ntensor b hbm f32[4,8] ", of_b,
             "\ntensor t sbuf f32[2,8]\ntensor x sbuf s32[2,1]\ntensor z sbuf f32[4,8]\n"
             "stream vector\n  memset dst=z value=9 then s3+=1\n"
             "stream sync\n  dma_copy dst=x src=i then s0+=16\n  dma_copy dst=t src=a then s0+=16\n"
             "  dma_copy dst=b src=z wait s3>=1 then s1+=16\n"
             "  dma_copy dst=b[0, 1@8 8@1] src=t[0:1, 0, 8@1] wait s0>=32 s1>=16 ",
             first_row_waits,
             "\n"
             "stream gpsimd\n  dma_copy dst=b[0, 2@8 8@1, rows x*8] src=t wait s0>=32 s1>=16 then s2+=16\n");
}

}  // namespace

TEST_CASE("a program without data in its addresses settles in its first run") {
  const Reused reused(
      "program p\ntensor a hbm f32[4,8] input\ntensor out hbm f32[4,8] output\ntensor t sbuf f32[4,8]\n"
      "stream sync\n  dma_copy dst=t src=a then s0+=16\n  dma_copy dst=out src=t wait s1>=1\n"
      "stream vector\n  tensor_scalar dst=t data=t operand0=2 op0=multiply wait s0>=16 then s1+=1\n");
  const auto first = reused.run().floats("out");
  CHECK(reused.ready->settled());
  CHECK_EQ(first.at(5), 12);
  for (int round = 0; round < 3; ++round) CHECK_EQ(reused.run().floats("out"), first);
}

TEST_CASE("a race is found in every run") {
  const Reused reused(
      "program p\ntensor a hbm f32[4,8] input\ntensor out hbm f32[4,8] output\ntensor t sbuf f32[4,8]\n"
      "stream sync\n  dma_copy dst=t src=a then s0+=16\n  dma_copy dst=out src=t queue=1\n");
  const std::string first = reused.run().kinds();
  CHECK_NE(first, "");
  for (int round = 0; round < 3; ++round) CHECK_EQ(reused.run().kinds(), first);
  CHECK(!reused.ready->settled());
}

TEST_CASE("a gather settles once any row would do, and still finds rows outside") {
  const Reused reused(cat(kGather, "\n"));
  reused.run({0, 1, 2, 3});
  reused.run({0, 1, 2, 3});
  CHECK(reused.ready->settled());
  CHECK_EQ(reused.run({3, 3, 0, 1}).floats("out").at(0), 25);
  const TextRun outside = reused.run({3, 4, 0, 1});
  CHECK_EQ(outside.kinds(), "out-of-bounds uninitialized-read");
  CHECK_EQ(outside.kinds(), run_text(cat(kGather, "\n")).kinds());  // of 1, 2, 3, 4
  CHECK_EQ(reused.run({1, 1, 1, 1}).floats("out").at(31), 16);
}

TEST_CASE("rows that a gather may skip leave unwritten what other data does not") {
  const Reused reused(cat(kGather, " oob=skip\n"));
  for (int round = 0; round < 3; ++round) CHECK_EQ(reused.run({0, 1, 2, 3}).kinds(), "");
  CHECK(!reused.ready->settled());
  CHECK_EQ(reused.run({0, 9, 2, 3}).kinds(), "uninitialized-read");
}

TEST_CASE("a scatter that other data would have race never settles") {
  const Reused ordered(scatter("s2>=16")), loose(scatter(""));
  for (int round = 0; round < 3; ++round) {
    CHECK_EQ(ordered.run({1, 2}).kinds(), "");
    CHECK_EQ(loose.run({1, 2}).kinds(), "");
  }
  CHECK(ordered.ready->settled());
  CHECK(!loose.ready->settled());
  CHECK_EQ(loose.run({0, 2}).kinds(), "race");
  CHECK_EQ(ordered.run({3, 2}).floats("b").at(24), 1);
  CHECK_EQ(ordered.run({3, 2}).floats("b").at(8), 9);
}

TEST_CASE("loops whose trips are data are looked at every time") {
  const Reused reused(
      "program p\ntensor i hbm s32[1,1] input\ntensor out hbm f32[1,1] output\ntensor n sbuf s32[1,1]\n"
      "tensor t sbuf f32[1,1]\nstream sync\n  dma_copy dst=n src=i then s0+=16\n"
      "  dma_copy dst=out src=t wait s1>=1\nstream vector\n  register_load dst=r0 src=n wait s0>=16\n"
      "  loop trips=r0\n  memset dst=t value=3\n  end_loop\n  tensor_scalar dst=t data=t operand0=1 op0=add then "
      "s1+=1\n");
  for (int round = 0; round < 3; ++round) CHECK_EQ(reused.run({2}).kinds(), "");
  CHECK(!reused.ready->settled());
  CHECK_EQ(reused.run({0}).kinds(), "uninitialized-read");
}

TEST_CASE("an accumulator starts afresh in every run") {
  const Reused reused(
      "program p\ntensor a hbm f32[4,8] input\ntensor out hbm f32[4,1] output\ntensor t sbuf f32[4,8]\n"
      "tensor r sbuf f32[4,1]\nstream sync\n  dma_copy dst=t src=a then s0+=16\n"
      "  dma_copy dst=out src=r wait s1>=1\nstream scalar\n"
      "  activation dst=t data=t op=copy reduce_cmd=reduce reduce_res=r wait s0>=16 then s1+=1\n");
  const auto first = reused.run().floats("out");
  CHECK_EQ(first.at(0), 36);
  CHECK_EQ(reused.run().floats("out"), first);
}
