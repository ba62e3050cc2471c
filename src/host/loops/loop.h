// Runs loop programs (arch/plan/loop.h) at host speed: prepare() once, run() many times, from any thread.
// Not the choice of what to fuse: that is the compiler's. An output may share memory with an input that is read at
// the same elements, in no later stage. Invariant: results do not depend on the number of threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "arch/plan/loop.h"
#include "base/simd.h"

namespace trine::host {

struct LoopOptions {
  Simd simd = simd_best();
  bool machine_code = true;       // where there can be some
  bool bf16 = has_avx512_bf16();  // with AVX-512's conversions to bf16
};

struct LoopPlan;
struct NestCode;

// A prepared program. Shared, because plans and the cache of kernels hold the same one; it never changes.
class LoopKernel {
 public:
  explicit LoopKernel(std::shared_ptr<const LoopPlan> plan) : plan_(std::move(plan)) {}
  const LoopPlan& plan() const { return *plan_; }

 private:
  std::shared_ptr<const LoopPlan> plan_;
};

Result<LoopKernel> prepare(const arch::LoopProgram& program, const LoopOptions& options = {});

// `operands`: the first byte of each operand's buffer, in the program's order.
void run(const LoopKernel& kernel, std::span<void* const> operands);

// A kernel on memory that stays where it is, for many runs: of a small one, a run is little more than its machine code.
class LoopCall {
 public:
  // `scratch`: scratch_bytes(), aligned to 64, for as long as the call lives.
  LoopCall(const LoopKernel& kernel, std::span<void* const> operands, std::byte* scratch);
  static size_t scratch_bytes(const LoopKernel& kernel);
  void run() const;
  // Its machine code (inner_entry() of host/vector/jit.h), where a run is no more than that; and what it is called
  // with.
  const void* inner() const;
  std::byte* scratch() const { return scratch_; }

 private:
  const LoopKernel* kernel_;
  std::vector<void*> operands_;
  const NestCode* code_ = nullptr;     // of one range
  std::vector<std::byte> words_ = {};  // of a call that is set anew each time, since it counts its rows
  std::byte* scratch_ = nullptr;
};

inline constexpr uint32_t kNoOperand = UINT32_MAX;

// A program for the finished tiles of a multiply: two dims that are not inner, rows and columns of the result. Operand
// `in` is the tile itself, and `out`, if any, is written back to it; the others are found by global row and column.
struct LoopEpilogue {
  LoopKernel kernel;
  uint32_t in = 0, out = kNoOperand;
};
Result<LoopEpilogue> prepare_epilogue(const arch::LoopProgram& program, uint32_t in, uint32_t out = kNoOperand,
                                      const LoopOptions& options = {});

// What an Epilogue of a multiply carries as `ctx`, with run_epilogue as its `run`.
struct LoopEpilogueCall {
  const LoopEpilogue* epilogue = nullptr;
  std::span<void* const> operands = {};  // those of the tile are not looked at
};
void run_epilogue(void* ctx, float* tile, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t ld);

}  // namespace trine::host
