// Runs tile programs (arch/plan/tile.h) at host speed: prepare() once, run() many times, from any thread.
// Not the choice of what to fuse: that is the compiler's. An output may share memory with an input that is read at
// the same elements, in no later stage. Invariant: results do not depend on the number of threads.
#pragma once

#include <memory>
#include <span>

#include "arch/plan/tile.h"
#include "base/simd.h"

namespace trine::host {

struct TileOptions {
  Simd simd = simd_best();
  bool machine_code = true;  // where there can be some
};

struct TilePlan;

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

}  // namespace trine::host
