// The scalar and GpSimd rows' intervals at sample sizes, the words they refuse a wrong instruction with, and the
// findings that a run makes of inputs outside a function's range.
#include <cstring>

#include "arch/activation.h"
#include "run/drivers/exact/exact.h"
#include "tests/insns/one_insn.h"

using namespace trine;
using namespace trine::arch;

namespace {

constexpr std::string_view kTiles =
    "a sbuf f32[128,512]; c sbuf f32[128,512]; h sbuf bf16[128,512]; p psum f32[128,512]; r sbuf f32[128,1];"
    "rh sbuf bf16[128,1]; rt sbuf tf32[128,1]; short sbuf f32[64,512]; few sbuf f32[128,16]; x sbuf "
    "f8e4m3fn_x4[128,512]";
constexpr std::string_view kGather =
    "a sbuf f32[128,512]; c sbuf f32[128,64]; h sbuf bf16[128,512]; i sbuf u16[128,4]; w sbuf u32[128,64];"
    "d sbuf f32[128,2048]; b sbuf u8[128,512]; e sbuf u8[128,64]; v sbuf u32[128,2048]; z sbuf s32[128,513];"
    "one sbuf f32[1,512]; two sbuf s32[1,1024]; k sbuf bf16[128,8]; n sbuf u32[128,8]; odd sbuf bf16[24,8]";

struct CycleRow {
  std::string_view chip, engine, tensors, insn;
  int64_t cycles;
};

constexpr CycleRow kCycles[] = {
    // max(MIN_II, N + access), and MIN_II more to read the registers out
    {"trn1", "scalar", kTiles, "activation dst=c data=a op=exp", 572},
    {"trn2", "scalar", kTiles, "activation dst=h data=h op=exp", 572},
    {"trn3", "scalar", kTiles, "activation dst=h data=h op=exp", 572},
    {"trn2", "scalar", kTiles, "activation dst=few data=few op=exp scale=r bias=r", 76},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp reduce_res=r reduce_cmd=reset_reduce", 636},
    {"trn2", "scalar", kTiles, "activation_reduce dst=few data=few op=exp reduce_res=r", 140},
    {"trn2", "scalar", kTiles, "activation dst=c[0:128, 0, 100@1] data=a[0:128, 0, 100@5] op=exp", 260},
    {"trn3", "scalar", kTiles, "activate2 dst=c data=a op=exp op0=multiply imm0=2", 572},
    // 150 + N
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[1,512]", 662},
    {"trn2", "gpsimd", kTiles, "iota dst=r pattern=[1,1]", 151},
    {"trn2", "gpsimd", kTiles, "affine_select dst=c on_true_tile=a pattern=[1,512]", 662},
    // 150 + n·e·C: C is 8 cycles for a single f32, 1.2 in runs of 32, 0.7 for bytes in runs of four
    {"trn2", "gpsimd", kGather, "local_gather dst=c src_buffer=a index=i", 150 + 64 * 8},
    {"trn2", "gpsimd", kGather, "local_gather dst=d src_buffer=a index=i num_elem_per_idx=32", 150 + 2496},
    {"trn2", "gpsimd", kGather, "local_gather dst=e src_buffer=b index=i", 150 + 64 * 8},
    {"trn2", "gpsimd", kGather, "local_gather dst=e src_buffer=b index=i num_elem_per_idx=4 num_valid_indices=16", 194},
    {"trn2", "gpsimd", kGather, "nc_n_gather dst=c data=a indices=w", 150 + 64 * 8},
    {"trn2", "gpsimd", kGather, "nc_n_gather dst=d data=a indices=v", 4 * 150 + 2048 * 8},
    {"trn2", "gpsimd", kGather, "topk val_dst=k idx_dst=n src=h n=8000", 32008},
    {"trn2", "gpsimd", kGather, "nonzero_with_count dst=z src=a", 662},
    {"trn2", "gpsimd", kGather, "sequence_bounds dst=two segment_ids=one", 1174},
    {"trn2", "gpsimd", kGather, "tensor_partition_reduce dst=one data=a op=add", 150 + 7 * 512},
};

struct RuleRow {
  std::string_view chip, engine, tensors, insn, error;
};

constexpr RuleRow kRules[] = {
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp bias=1.5", ""},
    {"trn1", "scalar", kTiles, "activation dst=c data=a op=exp bias=1.5",
     "bias is a constant, and on trn1 it has to be"},
    {"trn1", "scalar", kTiles, "activation dst=c data=a op=exp bias=rh", ""},
    {"trn1", "scalar", kTiles, "activation dst=c data=a op=reciprocal bias=r", "with reciprocal, which trn1 cannot do"},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=reciprocal bias=r", ""},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp bias=rt", "bias is tf32"},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp scale=rh", "scale is bf16; it has to be f32"},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp scale=few", "scale has 16 elements per partition"},
    {"trn2", "scalar", kTiles, "activation dst=c data=short op=exp", "dst has 128 partitions and data has 64"},
    {"trn2", "scalar", kTiles, "activation dst=c data=few op=exp",
     "dst has 512 elements per partition and data has 16"},
    {"trn2", "scalar", kTiles, "activation dst=c data=x op=exp", "data is f8e4m3fn_x4, which no engine computes with"},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=prelu", "only activate2 can take"},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp reduce_op=max", "activation reduces with add only"},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp reduce_cmd=load_reduce", "no reduce_init to load"},
    {"trn2", "scalar", kTiles, "activation dst=c data=a op=exp reduce_res=few", "reduce_res has 16 elements"},
    {"trn2", "scalar", kTiles, "activation_reduce dst=c data=a op=exp reduce_op=max",
     "activation_reduce knows add only"},
    {"trn2", "scalar", kTiles, "activate2 dst=c data=a op=exp", "activate2"},
    {"trn3", "scalar", kTiles, "activate2 dst=c data=a op=exp op0=multiply", "imm0 is missing, and multiply needs it"},
    {"trn3", "scalar", kTiles, "activate2 dst=c data=a op=exp op0=add imm0=1 op1=add imm1=1",
     "op0 and op1 are add and add"},
    {"trn3", "scalar", kTiles, "activate2 dst=c data=a op=exp reverse0=true", "no operator to reverse"},
    {"trn3", "scalar", kTiles, "activate2 dst=c data=a op=exp op0=multiply imm0=r op1=add imm1=rh",
     "imm0 is f32 and imm1"},
    {"trn3", "scalar", kTiles, "activate2 dst=c data=a op=exp reduce_op=multiply", "reduce_op is multiply"},
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[1,500]",
     "pattern makes 500 elements per partition and dst has 512"},
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[1,512,1]", "pattern has 3 numbers"},
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[1,2,1,2,1,2,1,2,1,32]", "pattern has 10 numbers"},
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[1,512,1,512,1,512,1,512]", "pattern makes more than 512"},
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[1,0]", "pattern has the count 0"},
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[4294967296,512]", "no 32-bit integer"},
    {"trn2", "gpsimd", kTiles, "iota dst=c pattern=[1,512] offset=4294967296", "offset is 4294967296"},
    {"trn2", "gpsimd", kTiles, "affine_select dst=c on_true_tile=a pattern=[1,512] cmp_op=add", "cmp_op is add"},
    {"trn2", "gpsimd", kTiles, "affine_select dst=c on_true_tile=few pattern=[1,512]", "on_true_tile has 16 elements"},
    {"trn2", "gpsimd", kGather, "local_gather dst=c src_buffer=h index=i", "a gather does not cast"},
    {"trn2", "gpsimd", kGather, "local_gather dst=c src_buffer=a index=w", "index is u32; it has to be u16"},
    {"trn2", "gpsimd", kGather, "local_gather dst=c src_buffer=a index=i num_elem_per_idx=3",
     "it is 1, 2, 4, 8, 16 or 32"},
    {"trn2", "gpsimd", kGather, "local_gather dst=d src_buffer=a index=i", "dst has 2048 elements per partition"},
    {"trn2", "gpsimd", kGather, "local_gather dst=c src_buffer=a index=i num_valid_indices=65", "hold 64 indices"},
    {"trn2", "gpsimd", kGather, "nc_n_gather dst=c data=a indices=v", "dst has 64 elements per partition and indices"},
    {"trn2", "gpsimd", kGather, "topk val_dst=k idx_dst=n src=h n=7", "n is 7; it is 8 to 65535"},
    {"trn2", "gpsimd", kGather, "topk val_dst=k idx_dst=n src=h n=9000", "src holds 512·16 elements"},
    {"trn2", "gpsimd", kGather, "topk val_dst=k idx_dst=n src=a n=64", "src is f32; it has to be bf16"},
    {"trn2", "gpsimd", kGather, "topk val_dst=k[0:24, 0, 8@1] idx_dst=n[0:24, 0, 8@1] src=odd n=64",
     "covers 24 partitions"},
    {"trn1", "gpsimd", kGather, "nonzero_with_count dst=z src=a", "gpsimd_select"},
    {"trn2", "gpsimd", kGather, "nonzero_with_count dst=z src=h", "src is bf16; it has to be f32 or s32"},
    {"trn2", "gpsimd", kGather, "nonzero_with_count dst=z[0:128, 0, 512@1] src=a",
     "dst has 512 elements per partition"},
    {"trn2", "gpsimd", kGather, "sequence_bounds dst=two segment_ids=a", "segment_ids covers 128 partitions"},
    {"trn2", "gpsimd", kGather, "sequence_bounds dst=one segment_ids=one", "dst has 512 elements; it holds a start"},
    {"trn2", "gpsimd", kGather, "tensor_partition_reduce dst=a data=a op=add", "dst covers 128 partitions"},
    {"trn2", "gpsimd", kGather, "tensor_partition_reduce dst=one data=a op=multiply", "op is multiply; it is add"},
    {"trn2", "gpsimd", kGather, "tensor_partition_reduce dst=one data=b op=bitwise_or", "works on raw bits"},
};

}  // namespace

TEST_CASE("scalar and gpsimd intervals") {
  for (const CycleRow& r : kCycles) {
    const Judged j = judge(r.chip, r.engine, r.tensors, r.insn);
    CHECK_MESSAGE(j.error.empty(), r.insn, ": ", j.error);
    CHECK_MESSAGE(j.cost.cycles == r.cycles, r.chip, " ", r.insn);
  }
}

TEST_CASE("scalar and gpsimd rules name operand, rule and fix") {
  for (const RuleRow& r : kRules) {
    const Judged j = judge(r.chip, r.engine, r.tensors, r.insn);
    if (r.error.empty())
      CHECK_MESSAGE(j.error.empty(), r.chip, " ", r.insn, ": ", j.error);
    else
      CHECK_MESSAGE(j.error.find(r.error) != std::string::npos, r.chip, " ", r.insn, ": '", j.error, "'");
  }
}

TEST_CASE("activations name the table they need, plain ones none") {
  CHECK(judge("trn2", "scalar", kTiles, "activation dst=c data=a op=relu").cost.table == -1);
  const int gelu = judge("trn2", "scalar", kTiles, "activation dst=c data=a op=gelu").cost.table;
  CHECK(activation_table_sets()[static_cast<size_t>(gelu)] == "gelu_and_others");
  CHECK(judge("trn2", "scalar", kTiles, "activation dst=c data=a op=exp").cost.table != gelu);
}

namespace {

// Runs "x hbm -> x sbuf, insn, y sbuf -> y hbm" on four floats of one partition.
run::RunResult run_on(std::string_view insn, std::vector<float> in, std::vector<float>& out) {
  const std::string engine = insn.starts_with("activation") ? "scalar" : "gpsimd";
  auto program = assemble(cat("program one\nchip trn2\ntensor x hbm f32[1,4] input\ntensor y hbm f32[1,4] output\n"
                              "tensor a sbuf f32[1,4]\ntensor b sbuf f32[1,4]\nstream sync\n"
                              "  dma_copy dst=a src=x then s0+=16\n  dma_copy dst=y src=b wait s1>=1\nstream ",
                              engine, "\n  ", insn, " wait s0>=16 then s1+=1\n"),
                          "one");
  REQUIRE_MESSAGE(program, (program ? "" : program.error().text()));
  auto result = run::run_exact(*program, **find_chip("trn2"), {{"x", std::as_bytes(std::span(in))}});
  REQUIRE(result);
  out.resize(4);
  std::memcpy(out.data(), result->outputs[0].bytes.data(), 16);
  return std::move(*result);
}

}  // namespace

TEST_CASE("inputs outside a function's range are one finding, and the run goes on") {
  std::vector<float> out;
  const auto result = run_on("activation dst=b data=a op=sin", {0.5f, 9.0f, -4.0f, 1.0f}, out);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].kind == FaultKind::out_of_range_input);
  CHECK(result.findings[0].operand == "data");
  CHECK(result.findings[0].text().find("2 of 4 inputs of sin lie outside [-π, π], the first is 9") !=
        std::string::npos);
  CHECK(result.finished);
  CHECK(out[1] == doctest::Approx(27.65).epsilon(0.001));
  CHECK(run_on("activation dst=b data=a op=sin", {0.5f, 3.0f, -3.1f, 1.0f}, out).findings.empty());
}

// Gathers the same index twice from a row of four of which only two elements were written.
static std::vector<run::Finding> gather_at(int index) {
  auto program = assemble(cat("program one\nchip trn2\ntensor x hbm f32[1,2] input\ntensor y hbm f32[1,2] output\n"
                              "tensor a sbuf f32[1,4]\ntensor i sbuf u32[1,2]\ntensor b sbuf f32[1,2]\nstream sync\n"
                              "  dma_copy dst=a[0:1, 0, 2@1] src=x then s0+=16\n  dma_copy dst=y src=b wait s1>=1\n"
                              "stream gpsimd\n  iota dst=i pattern=[0,2] offset=",
                              index, "\n  nc_n_gather dst=b data=a indices=i wait s0>=16 then s1+=1\n"),
                          "one");
  REQUIRE_MESSAGE(program, (program ? "" : program.error().text()));
  const std::vector<float> in = {1.5f, 2.5f};
  auto result = run::run_exact(*program, **find_chip("trn2"), {{"x", std::as_bytes(std::span(in))}});
  REQUIRE(result);
  return result->findings;
}

TEST_CASE("a gather looks only at the elements it is asked for") {
  CHECK(gather_at(1).empty());
  const auto hole = gather_at(2), outside = gather_at(4);
  REQUIRE(hole.size() == 1);
  CHECK(hole[0].kind == FaultKind::uninitialized_read);
  REQUIRE(outside.size() == 1);
  CHECK(outside[0].kind == FaultKind::out_of_bounds);
  CHECK(outside[0].text().find("index 4 lies outside the 4 elements of the row") != std::string::npos);
}
