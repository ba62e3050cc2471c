// The vector rows' published intervals at sample sizes, and the words they refuse a wrong instruction with.
#include "tests/insns/one_insn.h"

using namespace trine;
using namespace trine::arch;

namespace {

constexpr std::string_view kF32 =
    "a sbuf f32[128,512]; b sbuf f32[128,512]; c sbuf f32[128,512]; p psum f32[128,512];"
    "s sbuf f32[128,16]; r sbuf f32[128,1]; q sbuf u8[128,512]; h sbuf bf16[128,512]";
constexpr std::string_view kBf16 =
    "a sbuf bf16[128,512]; b sbuf bf16[128,512]; c sbuf bf16[128,512]; "
    "p psum bf16[128,512]; r sbuf bf16[128,1]";
constexpr std::string_view kFp8 = "a sbuf f8e5m2[128,512]; c sbuf f8e5m2[128,512]";

struct CycleRow {
  std::string_view chip, engine, tensors, insn;
  int64_t cycles;
  bool fast = false;
};

constexpr CycleRow kCycles[] = {
    // max(MIN_II, N + access), and MIN_II for little work
    {"trn1", "vector", kF32, "tensor_copy dst=c src=a", 572},
    {"trn2", "vector", kF32, "tensor_copy dst=c src=a", 572},
    {"trn2", "vector", kF32, "tensor_copy dst=r src=s[0:128, 0, 1@1]", 64},
    {"trn2", "scalar", kBf16, "tensor_copy dst=c src=a", 572},
    {"trn3", "scalar", kBf16, "tensor_copy dst=c src=a", 316},
    {"trn2", "gpsimd", kBf16, "tensor_copy dst=c src=a", 512},
    // the fast modes of v3 on
    {"trn1", "vector", kBf16, "tensor_copy dst=c src=a", 572},
    {"trn2", "vector", kBf16, "tensor_copy dst=c src=a", 188, true},
    {"trn2", "vector", kBf16, "tensor_copy dst=c[0:128, 0, 256@1] src=a[0:128, 0, 256@2]", 188, true},
    {"trn2", "vector", kBf16, "tensor_copy dst=c src=p", 316, true},
    {"trn2", "vector", kBf16, "tensor_scalar dst=c data=a operand0=2 op0=multiply", 188, true},
    {"trn2", "vector", kFp8, "tensor_copy dst=c src=a", 572},
    {"trn3", "vector", kFp8, "tensor_copy dst=c src=a", 188, true},
    // strides over 16 bytes halve the bandwidth; register offsets have a floor
    {"trn2", "vector", kF32, "tensor_copy dst=c[0:128, 0, 100@1] src=a[0:128, 0, 100@5]", 260},
    {"trn2", "vector", kF32, "tensor_copy dst=c[0:128, 0, 100@1] src=a[0:128, 0, 100@4]", 160},
    {"trn2", "vector", kF32, "tensor_copy dst=c[0:128, 0, 100@1] src=a[0:128, r3*4, 100@1]", 600},
    // two tiles
    {"trn1", "vector", kF32, "tensor_tensor dst=c data1=a data2=b op=add", 1084},
    {"trn1", "vector", kF32, "tensor_tensor dst=c data1=a data2=p op=add", 572},
    {"trn1", "vector", kBf16, "tensor_tensor dst=c data1=a data2=b op=add", 572},
    {"trn1", "vector", kBf16, "tensor_tensor dst=c data1=a data2=b op=max", 1084},
    {"trn2", "vector", kBf16, "tensor_tensor dst=c data1=a data2=b op=add", 316, true},
    {"trn2", "vector", kBf16, "tensor_tensor dst=c data1=a data2=b op=max", 572, true},
    {"trn2", "gpsimd", kF32, "tensor_tensor dst=c data1=a data2=b op=power", 1024},
    {"trn2", "vector", kF32, "scalar_tensor_tensor dst=c data=a operand0=1 operand1=b op0=subtract op1=multiply", 1084},
    {"trn2", "vector", kBf16, "scalar_tensor_tensor dst=c data=a operand0=1 operand1=b op0=subtract op1=multiply", 572},
    {"trn2", "vector", kF32, "tensor_tensor_scan dst=c data0=a data1=b initial=0 op0=multiply op1=add", 1084},
    {"trn2", "vector", kF32, "tensor_copy_predicated dst=c src=a predicate=q", 1084},
    {"trn2", "vector", kF32, "tensor_copy_predicated dst=c src=p predicate=q", 572},
    {"trn2", "vector", kF32, "select_reduce dst=c predicate=q on_true=a on_false=0", 1084},
    // the rest
    {"trn2", "gpsimd", kF32, "tensor_scalar dst=c data=a op0=rsqrt", 2048},
    {"trn2", "vector", kF32, "memset dst=c value=0", 572},
    {"trn2", "vector", kBf16, "memset dst=c value=0", 316},
    {"trn2", "vector", kBf16, "memset dst=c value=1", 572},
    {"trn2", "vector", kF32, "reciprocal dst=c data=a", 1443},
    {"trn2", "vector", kF32, "tensor_reduce dst=r data=a op=add", 572},
    {"trn2", "vector", kBf16, "tensor_reduce dst=r data=a op=add", 316},
    {"trn2", "vector", kBf16, "tensor_reduce dst=r data=a op=multiply", 572},
    {"trn2", "vector", kF32, "tensor_scalar_reduce dst=c data=a operand0=1 op0=add reduce_op=add reduce_res=r", 636},
    {"trn2", "vector", kF32, "tensor_scalar_cumulative dst=c src=a imm0=1 op0=multiply op1=add", 572},
    {"trn3", "vector", kF32, "exponential dst=c src=a", 188},
    {"trn2", "vector", kF32,
     "range_select dst=c on_true_tile=a bound0=r bound1=r comp_op0=greater comp_op1=less reduce_res=s[0:128, 0, 1@1]",
     572},
    {"trn2", "vector", kF32, "bn_stats dst=s[0:128, 0, 6@1] data=a", 572},
    {"trn2", "vector", kF32, "bn_aggr dst=s[0:128, 0, 2@1] data=a[0:128, 0, 300@1]", 1360},
    {"trn2", "vector", kF32, "max8 dst=s[0:128, 0, 8@1] src=a", 572},
    {"trn3", "vector", "c sbuf u32[128,512]", "rng dst=c", 188},
    {"trn2", "vector", "c sbuf u32[128,512]", "rng dst=c", 572},
    {"trn3", "vector", kF32, "rand2 dst=c min=0 max=1", 188},
    {"trn3", "vector", "a sbuf bf16[128,512]; d sbuf f8e5m2_x4[128,128]; e sbuf u8[128,128]",
     "quantize_mx dst=d src=a dst_scale=e", 188},
};

struct ErrorRow {
  std::string_view chip, engine, tensors, insn, summary;
};

constexpr ErrorRow kErrors[] = {
    {"trn2", "vector", kF32, "tensor_copy dst=c src=a[0:64, 0, 512@1]", "dst has 128 partitions and src has 64"},
    {"trn2", "vector", kF32, "tensor_copy dst=c src=a[0:128, 0, 500@1]", "dst has 512 elements per partition"},
    {"trn1", "scalar", "c sbuf s32[128,8]", "tensor_copy dst=c src=c", "moves floats only"},
    {"trn1", "scalar", "c sbuf s32[128,8]", "tensor_scalar dst=c data=c op0=add operand0=1", "moves floats only"},
    {"trn2", "vector", "d sbuf f8e5m2_x4[128,8]; c sbuf f32[128,8]", "tensor_copy dst=c src=d",
     "no engine computes with"},
    {"trn2", "vector", "c sbuf u8[128,8]", "memset dst=c value=256", "value 256 is no u8"},
    {"trn2", "vector", kF32, "tensor_tensor dst=c data1=p data2=p op=add", "both lie in PSUM"},
    {"trn2", "vector", kF32, "tensor_tensor dst=c data1=a data2=b op=power", "run the instruction on gpsimd"},
    {"trn2", "vector", kF32, "tensor_tensor dst=c data1=a data2=b op=abs_max", "needs a chip with abs_ops"},
    {"trn2", "vector", kF32, "tensor_tensor dst=c data1=a data2=b op=square", "abs_ops"},
    {"trn3", "vector", kF32, "tensor_tensor dst=c data1=a data2=b op=square", "takes one operand"},
    {"trn2", "vector", kF32, "tensor_tensor dst=c data1=a data2=b op=bitwise_and", "take integers"},
    {"trn2", "vector", kF32, "tensor_tensor dst=c data1=a data2=b op=average", "tensor_partition_reduce"},
    {"trn2", "gpsimd", "a sbuf u32[8,8]", "tensor_tensor dst=a data1=a data2=a op=bitwise_or", "run it on vector"},
    {"trn2", "vector", kF32, "tensor_scalar dst=c data=a op0=add", "op0=add needs operand0"},
    {"trn2", "vector", kF32, "tensor_scalar dst=c data=a operand0=s op0=add", "give it [128, 1] or a constant"},
    {"trn2", "vector", kF32, "tensor_scalar dst=c data=a operand0=h[0:128, 0, 1@1] op0=add",
     "arithmetic operands are f32"},
    {"trn2", "vector", "a sbuf u8[8,8]", "tensor_scalar dst=a data=a op0=add operand0=1 op1=bitwise_and operand1=1",
     "use two instructions"},
    {"trn2", "vector", "a sbuf u8[8,8]; b sbuf u16[8,8]", "tensor_scalar dst=b data=a op0=bitwise_and operand0=1",
     "give both the same width"},
    {"trn2", "vector", "a sbuf u8[8,8]", "tensor_scalar dst=a data=a op0=bitwise_and operand0=1.5", "whole numbers"},
    {"trn2", "scalar", kF32, "tensor_scalar dst=c data=a op0=subtract operand0=1", "multiply then add"},
    {"trn2", "gpsimd", kF32, "tensor_scalar dst=c data=a op0=add operand0=1", "op0=rsqrt alone"},
    {"trn2", "vector", kF32, "tensor_tensor_scan dst=c data0=a data1=b initial=s op0=add op1=add", "initial has 16"},
    {"trn2", "vector", kF32, "tensor_copy_predicated dst=h src=a predicate=q", "casts nothing"},
    {"trn2", "vector", kF32, "tensor_copy_predicated dst=c src=a predicate=b", "u8, u16 or u32"},
    {"trn2", "vector", kF32, "bn_stats dst=s data=a", "bn_stats writes 6"},
    {"trn2", "vector", kF32, "bn_aggr dst=s[0:128, 0, 2@1] data=a", "multiple of 3"},
    {"trn2", "vector", kF32, "tensor_reduce dst=s[0:128, 0, 3@1] data=a op=add", "dst must divide data"},
    {"trn2", "vector", kF32, "tensor_reduce dst=r data=a op=equal", "does not reduce"},
    {"trn2", "vector", kF32, "tensor_scalar_reduce dst=c data=a op0=add operand0=1 reduce_op=equal", "use one of add"},
    {"trn2", "vector", kF32, "tensor_scalar_reduce dst=c data=a op0=add operand0=1 reduce_op=add reduce_cmd=idle",
     "reset_reduce, reduce, load_reduce"},
    {"trn2", "vector", kF32, "tensor_scalar_reduce dst=c data=a op0=add operand0=1 reduce_op=add reduce_init=1",
     "give both or neither"},
    {"trn2", "vector", "a sbuf s32[8,8]", "tensor_scalar_cumulative dst=a src=a imm0=1 op0=add op1=add",
     "no 32-bit integers"},
    {"trn2", "vector", kF32, "exponential dst=c src=a", "needs exponential"},
    {"trn1", "vector", kF32, "range_select dst=c on_true_tile=a bound0=r bound1=r comp_op0=less comp_op1=less",
     "needs range_select"},
    {"trn2", "vector", kF32, "range_select dst=c on_true_tile=a bound0=r bound1=r comp_op0=not_equal comp_op1=less",
     "comp_op0=not_equal"},
    {"trn2", "vector", kF32,
     "range_select dst=c on_true_tile=a bound0=r bound1=r comp_op0=less comp_op1=less range_start=16777216", "2^24"},
    {"trn2", "vector", kF32, "select_reduce dst=c predicate=b on_true=a on_false=0", "s8, u8, s16 or u16"},
    {"trn2", "vector", kF32, "max8 dst=s[0:128, 0, 8@1] src=a[0:128, 0, 7@1]", "takes 8 to 16384"},
    {"trn2", "vector", kF32, "nc_find_index8 dst=s[0:128, 0, 8@1] data=a vals=s[0:128, 0, 8@1]",
     "indices are u16 or u32"},
    {"trn2", "vector", kF32, "nc_stream_shuffle dst=c src=a shuffle_mask=[1,2,3]", "one for each of 32"},
    {"trn2", "vector", kF32,
     "nc_stream_shuffle dst=c src=a "
     "shuffle_mask=[32,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
     "0 to 31, or 255"},
    {"trn1", "gpsimd", "a sbuf u32[8,8]", "rng dst=a", "gpsimd_rng"},
    {"trn2", "vector", kF32, "rng dst=c", "rng writes integers"},
    {"trn2", "vector", "a sbuf u32[8,24]", "rand_set_state src_seeds=a", "needs a chip with xorwow"},
    {"trn3", "vector", "a sbuf u32[8,6]", "rand_set_state src_seeds=a", "24 words"},
    {"trn3", "vector", kF32, "rand2 dst=c min=1 max=1", "not below max"},
    {"trn2", "vector", kF32, "set_rng_seed src_seeds=r", "[1,1]"},
    {"trn2", "vector", kF32, "dropout dst=c data=a prob=1.5", "between 0 and 1"},
    {"trn2", "vector", kF32, "dropout dst=h data=a prob=0.5", "casts nothing"},
    {"trn2", "vector", "a sbuf bf16[32,8]; d sbuf f8e5m2_x4[32,2]; e sbuf u8[32,2]",
     "quantize_mx dst=d src=a dst_scale=e", "needs mx"},
    {"trn3", "vector", "a sbuf bf16[32,8]; d sbuf f8e5m2_x4[32,2]; e sbuf u8[3,2]",
     "quantize_mx dst=d src=a dst_scale=e", "at least 4"},
};

}  // namespace

TEST_CASE("vector rows cost what is published and the way to memory") {
  for (const CycleRow& row : kCycles) {
    CAPTURE(row.chip);
    CAPTURE(row.insn);
    const Judged got = judge(row.chip, row.engine, row.tensors, row.insn);
    CHECK_EQ(got.error, "");
    CHECK_EQ(got.cost.cycles, row.cycles);
    CHECK_EQ(got.cost.fast, row.fast);
  }
}

TEST_CASE("vector rows refuse with operand, rule and fix") {
  for (const ErrorRow& row : kErrors) {
    CAPTURE(row.insn);
    const Judged got = judge(row.chip, row.engine, row.tensors, row.insn);
    CAPTURE(got.error);
    CHECK_NE(got.error, "");
    CHECK_NE(got.error.find(row.summary), std::string::npos);
  }
}
