// What prepare() makes of a loop program and run() walks: the nest, its steps, and how the work is cut.
// Invariant: units and parts depend on the program alone, so results do not depend on threads.
#pragma once

#include <memory>
#include <span>

#include "host/loops/interp.h"
#include "host/loops/loop.h"
#include "host/loops/nest.h"
#include "host/move.h"
#include "host/vector/jit.h"

namespace trine::host {

struct LoopPlan {
  LoopNest nest = {};
  LoopInterp interp = {};
  std::shared_ptr<const NestCode> code = {};  // null: the interpreter runs it
  bool empty = false;                         // no rows: nothing happens
  int64_t blocks = 1;                         // of lanes, along a vertical vector
  int64_t units = 1;                          // rows times blocks: what threads share out
  int64_t parts = 1;                          // partial results of a reduction over a unit; 0: over nothing
  int64_t row_blocks = 1;                     // where operands are staged, a unit is a block of rows and columns
  int64_t stage_columns = 1;                  // of such a unit: more where rows are few
  bool is_copy = false;                       // one load, stored as it is
  std::vector<MoveLoop> pieces = {};          // of a copy of short pieces: loops over them and over a piece
  int64_t unit_cost = 0;                      // in f32 additions, roughly
};

// Part of a vertical nest without inner loops: rows of the innermost row loop and a range along the vector.
struct LoopRegion {
  std::span<std::byte* const> bases = {};  // operands at row and column 0
  std::span<const int64_t> steps = {};     // bytes from row to row, per operand
  std::span<const int64_t> outer = {};     // index of the other row loops
  LoopRange range = {};
};
size_t region_bytes(const LoopPlan& plan);
void run_region(const LoopPlan& plan, const LoopRegion& region, std::byte* scratch);

// Units of a plan with staged operands.
void run_staged(const LoopPlan& plan, std::span<void* const> operands, int64_t begin, int64_t end);

// Of a verified program; `fixed` as in make_nest().
std::shared_ptr<const LoopPlan> make_plan(const arch::LoopProgram& program, const LoopOptions& options, bool fixed);

}  // namespace trine::host
