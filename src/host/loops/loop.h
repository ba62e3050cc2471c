// Runs tile programs (arch/plan/loop.h) at host speed: prepare() once, run() many times, from any thread.
// Not the choice of what to fuse: that is the compiler's. An output may share memory with an input that is read at
// the same elements, in no later stage. Invariant: results do not depend on the number of threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "arch/plan/loop.h"
#include "base/simd.h"

namespace trine::host {

struct TileOptions {
  Simd simd = simd_best();
  bool machine_code = true;       // where there can be some
  bool bf16 = has_avx512_bf16();  // with AVX-512's conversions to bf16
};

struct TilePlan;
struct TileCode;

// A prepared program. Shared, because plans and the cache of kernels hold the same one; it never changes.
class TileKernel {
 public:
  explicit TileKernel(std::shared_ptr<const TilePlan> plan) : plan_(std::move(plan)) {}
  const TilePlan& plan() const { return *plan_; }

 private:
  std::shared_ptr<const TilePlan> plan_;
};

Result<TileKernel> prepare(const arch::TileProgram& program, const TileOptions& options = {});

// `operands`: the first byte of each operand's buffer, in the program's order.
void run(const TileKernel& kernel, std::span<void* const> operands);

// A kernel on memory that stays where it is, for many runs: of a small one, a run is little more than its machine code.
class TileCall {
 public:
  // `scratch`: scratch_bytes(), aligned to 64, for as long as the call lives.
  TileCall(const TileKernel& kernel, std::span<void* const> operands, std::byte* scratch);
  static size_t scratch_bytes(const TileKernel& kernel);
  void run() const;

 private:
  const TileKernel* kernel_;
  std::vector<void*> operands_;
  const TileCode* code_ = nullptr;  // of one row in one range
  std::byte* scratch_ = nullptr;
};

inline constexpr uint32_t kNoOperand = UINT32_MAX;

// A program for the finished tiles of a multiply: two dims that are not inner, rows and columns of the result. Operand
// `in` is the tile itself, and `out`, if any, is written back to it; the others are found by global row and column.
struct TileEpilogue {
  TileKernel kernel;
  uint32_t in = 0, out = kNoOperand;
};
Result<TileEpilogue> prepare_epilogue(const arch::TileProgram& program, uint32_t in, uint32_t out = kNoOperand,
                                      const TileOptions& options = {});

// What an Epilogue of a multiply carries as `ctx`, with run_epilogue as its `run`.
struct TileEpilogueCall {
  const TileEpilogue* epilogue = nullptr;
  std::span<void* const> operands = {};  // those of the tile are not looked at
};
void run_epilogue(void* ctx, float* tile, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t ld);

}  // namespace trine::host
