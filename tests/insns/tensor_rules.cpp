// The tensor rows' published intervals at sample sizes, and the words they refuse a wrong instruction with.
#include "tests/insns/one_insn.h"

using namespace trine;
using namespace trine::arch;

namespace {

constexpr std::string_view kF32 =
    "s sbuf f32[128,128]; m sbuf f32[128,512]; d psum f32[128,512]; t sbuf tf32[128,512]; h sbuf bf16[128,512];"
    "p psum f32[128,128]; i sbuf s32[128,128]; b psum bf16[128,512]";
constexpr std::string_view kBf16 =
    "s sbuf bf16[128,128]; m sbuf bf16[128,512]; d psum f32[128,512]; b psum bf16[128,512]; p psum bf16[128,128]";
constexpr std::string_view kFp8 =
    "s sbuf f8e4m3[128,256]; m sbuf f8e5m2[128,1024]; d psum f32[128,512]; n sbuf f8e4m3fn[128,1024];"
    "e sbuf f8e3m4[128,1024]; p psum u16[128,128]; q psum f8e4m3[128,128]";
constexpr std::string_view kMx =
    "s sbuf f8e4m3fn_x4[128,128]; m sbuf f4e2m1fn_x4[128,512]; d psum f32[128,512]; u sbuf u8[128,128];"
    "v sbuf f8e8m0[128,512]; o sbuf f8e5m2_x4[128,127]; x sbuf f32[128,512]; w psum f32[127,512]; y sbuf u8[99,128]";

struct CostRow {
  std::string_view chip, engine, tensors, insn;
  int64_t cycles, load, flops;
};
constexpr int64_t kFull = 2LL * 128 * 128 * 512;

constexpr CostRow kCosts[] = {
    {"trn1", "tensor", kBf16, "nc_matmul dst=d stationary=s moving=m", 512, 32, kFull},
    {"trn2", "tensor", kBf16, "nc_matmul dst=d[0:128, 0, 16@1] stationary=s moving=m[0:128, 0, 16@1]", 64, 32,
     kFull / 32},
    {"trn2", "tensor", kBf16, "nc_matmul dst=d[0:64, 0, 512@1] stationary=s[0:128, 0, 64@1] moving=m", 512, 16,
     kFull / 2},
    // fp32: four passes, two with a hint about that operand, and no fast weight load
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=s moving=m", 2048, 512, kFull},
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=s moving=m is_moving_onezero=true", 1024, 256, kFull},
    // whose weights NeuronCore-v2 does not load in the background
    {"trn1", "tensor", kF32, "nc_matmul dst=d stationary=s moving=m", 2560, 0, kFull},
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=t[0:128, 0, 128@1] moving=m is_stationary_onezero=true", 2048,
     512, kFull},
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=t[0:128, 0, 128@1] moving=t", 512, 32, kFull},
    // transposes count no flops and halve the passes where there is a transpose mode
    {"trn2", "tensor", kF32, "nc_matmul dst=p stationary=s moving=m[0:128, 0, 128@1] is_transpose=true", 256, 256, 0},
    {"trn1", "tensor", kF32, "nc_matmul dst=p stationary=s moving=m[0:128, 0, 128@1] is_transpose=true", 1024, 0, 0},
    {"trn2", "tensor", kF32, "nc_transpose dst=p data=s", 256, 256, 0},
    {"trn1", "tensor", kF32, "nc_transpose dst=p data=s", 1024, 0, 0},
    {"trn2", "tensor", kBf16, "nc_transpose dst=p data=s", 128, 32, 0},
    {"trn2", "tensor", kBf16, "nc_transpose dst=p[0:128, 0, 16@1] data=s[0:16, 0, 128@1]", 64, 32, 0},
    {"trn2", "vector", kF32, "nc_transpose dst=i[0:32, 0, 32@1] data=i[0:32, 0, 32@1]", 92, 0, 0},
    // twice and four times the K in the same cycles
    {"trn2", "tensor", kFp8, "nc_matmul dst=d stationary=s moving=m perf_mode=double_row", 512, 32, 2 * kFull},
    {"trn3", "tensor", kMx, "nc_matmul_mx dst=d stationary=s moving=m stationary_scale=u moving_scale=v", 512, 32,
     4 * kFull},
};

struct ErrorRow {
  std::string_view chip, engine, tensors, insn, summary;
};

constexpr ErrorRow kErrors[] = {
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=s moving=h", "pair only with each other"},
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=i moving=m", "stationary is s32"},
    {"trn3", "tensor", kFp8, "nc_matmul dst=d stationary=s[0:128, 0, 128@1] moving=n[0:128, 0, 512@1]", "mix f8e4m3"},
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=s[0:64, 0, 128@1] moving=m", "the same K"},
    {"trn2", "tensor", kF32, "nc_matmul dst=d stationary=m moving=m", "at most 128 fit"},
    {"trn2", "tensor", kFp8, "nc_matmul dst=d stationary=s[0:128, 0, 128@1] moving=m", "at most 512 fit"},
    {"trn2", "tensor", kF32, "nc_matmul dst=d[0:64, 0, 512@1] stationary=s moving=m",
     "stationaryᵀ · moving is 128 by 512"},
    {"trn2", "tensor", kBf16, "nc_matmul dst=b stationary=s moving=m", "trn2 writes f32 to PSUM"},
    {"trn2", "tensor", "s sbuf f32[8,8]; m sbuf f32[8,8]; d psum f32[8,1024]",
     "nc_matmul dst=d[0:8, 508, 8@1] stationary=s moving=m", "from PSUM bank 0 into bank 1"},
    {"trn1", "tensor", kFp8, "nc_matmul dst=d stationary=s moving=m perf_mode=double_row", "not on trn1"},
    {"trn2", "tensor", kFp8, "nc_matmul dst=d stationary=e[0:128, 0, 256@1] moving=m perf_mode=double_row",
     "double_row takes f8e4m3"},
    {"trn2", "tensor", kFp8, "nc_matmul dst=d stationary=s moving=m perf_mode=double_row is_transpose=true", "exclude"},
    {"trn2", "tensor", kFp8, "nc_matmul dst=d stationary=s[0:128, 0, 255@1] moving=m perf_mode=double_row",
     "[K, 2, columns]"},
    {"trn2", "tensor", kFp8,
     "nc_matmul dst=d[0:64, 0, 512@1] stationary=s[0:128, 0, 128@1] moving=m perf_mode=double_row tile_position=[0,0] "
     "tile_size=[128,64]",
     "tiles rows only"},
    {"trn2", "tensor", kBf16, "nc_matmul dst=d stationary=s moving=m tile_position=[0,0]", "given together"},
    {"trn1", "tensor", kBf16,
     "nc_matmul dst=d[0:32, 0, 512@1] stationary=s[0:32, 0, 32@1] moving=m[0:32, 0, 512@1] tile_position=[0,0] "
     "tile_size=[32,32]",
     "tiles by 128, 64"},
    {"trn2", "tensor", kBf16, "nc_matmul dst=d stationary=s moving=m tile_position=[32,0] tile_size=[64,128]",
     "a multiple of 64"},
    {"trn2", "tensor", kBf16, "nc_matmul dst=d stationary=s moving=m tile_position=[64,0] tile_size=[64,128]",
     "takes 128 rows"},
    {"trn2", "tensor", kF32, "nc_matmul dst=p stationary=s moving=m[0:128, 0, 128@1] is_transpose=true accumulate=add",
     "cannot be added"},
    {"trn2", "tensor", kBf16,
     "nc_matmul dst=d[0:128, 0, 128@1] stationary=s moving=m[0:128, 0, 128@1] is_transpose=true",
     "keeps the source's dtype"},
    {"trn2", "tensor", kFp8,
     "nc_matmul dst=q stationary=s[0:128, 0, 128@1] moving=s[0:128, 0, 128@1] is_transpose=true", "every other byte"},
    {"trn2", "tensor", kMx, "nc_matmul_mx dst=d stationary=s moving=m stationary_scale=u moving_scale=v", "needs mx"},
    {"trn3", "tensor", kMx,
     "nc_matmul_mx dst=d stationary=x[0:128, 0, 128@1] moving=m stationary_scale=u moving_scale=v",
     "stationary is f32"},
    {"trn3", "tensor", kMx, "nc_matmul_mx dst=d stationary=s moving=m stationary_scale=u moving_scale=x",
     "scales are f8e8m0"},
    {"trn3", "tensor", kMx,
     "nc_matmul_mx dst=d stationary=s[0:40, 0, 128@1] moving=m[0:40, 0, 512@1] stationary_scale=u moving_scale=v",
     "a multiple of 32"},
    {"trn3", "tensor", kMx, "nc_matmul_mx dst=d stationary=s moving=m stationary_scale=y moving_scale=v",
     "reach to 100"},
    {"trn3", "tensor", kMx,
     "nc_matmul_mx dst=w stationary=o moving=m stationary_scale=u[0:128, 0, 127@1] moving_scale=v", "an even number"},
    {"trn2", "tensor", kF32, "nc_transpose dst=i data=s", "writes PSUM"},
    {"trn2", "tensor", kF32, "nc_transpose dst=d data=m", "at most 128 by 128"},
    {"trn2", "vector", kF32, "nc_transpose dst=i data=s", "at most 32 by 32"},
    {"trn1", "tensor", kF32, "nc_transpose dst=p data=i", "by a multiplication"},
    {"trn2", "vector", kF32, "nc_transpose dst=i[0:32, 0, 32@1] data=s[0:32, 0, 32@1]", "keeps the source's dtype"},
};

}  // namespace

TEST_CASE("tensor rows cost what is published") {
  for (const CostRow& row : kCosts) {
    CAPTURE(row.chip);
    CAPTURE(row.insn);
    const Judged got = judge(row.chip, row.engine, row.tensors, row.insn);
    CHECK_EQ(got.error, "");
    CHECK_EQ(got.cost.cycles, row.cycles);
    CHECK_EQ(got.cost.load, row.load);
    CHECK_EQ(got.cost.flops, row.flops);
  }
}

TEST_CASE("tensor rows refuse with operand, rule and fix") {
  for (const ErrorRow& row : kErrors) {
    CAPTURE(row.insn);
    const Judged got = judge(row.chip, row.engine, row.tensors, row.insn);
    CAPTURE(got.error);
    CHECK_NE(got.error.find(row.summary), std::string::npos);
  }
}
