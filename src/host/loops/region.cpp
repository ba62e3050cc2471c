// Regions of plans that have no inner loops: rows by columns, with operands wherever the caller says they are.
// Used for the tiles of multiplies, and for blocks whose operands were moved to lie along the vector.
#include <algorithm>
#include <array>

#include "host/loops/plan.h"
#include "host/loops/transpose.h"
#include "host/loops/walk.h"
#include "host/thresholds.h"

namespace trine::host {

namespace {

void run_in_code(const LoopPlan& plan, const LoopRegion& region, std::byte* scratch) {
  LoopRange range = region.range;
  const int64_t end = range.end, block = is_unblocked(*plan.code) ? end - range.begin : plan.interp.block;
  for (; range.begin < end; range.begin += block) {
    range.end = std::min(range.begin + block, end);
    run_code(*plan.code, region.bases, region.steps, region.outer, range, scratch);
  }
}

void interpret(const LoopPlan& plan, const LoopRegion& region, std::byte* scratch) {
  const LoopRange& range = region.range;
  NestWalker w{plan, {}};
  w.operand_count = region.bases.size();
  w.set_addresses(scratch, scratch + NestWalker::table_bytes(plan) + NestWalker::slots_bytes(plan));
  std::copy(region.outer.begin(), region.outer.end(), w.index);
  for (int64_t r = range.row; r < range.row + range.rows; ++r) {
    if (!plan.nest.rows.empty()) w.index[plan.nest.rows.size() - 1] = r;
    for (size_t o = 0; o < region.bases.size(); ++o) w.row[o] = region.bases[o] + r * region.steps[o];
    for (int64_t c = range.begin; c < range.end; c += plan.interp.block) {
      w.lane0 = c;
      w.lanes = std::min(plan.interp.block, range.end - c);
      w.run_unit();
    }
  }
}

// A unit: a block of rows and columns at one index of the outer row loops.
struct StagedUnit {
  const LoopPlan& plan;
  std::span<void* const> operands;
  std::span<std::byte*> bases;
  std::span<int64_t> steps, outer;
  LoopRange range = {};

  void go_to(int64_t unit) {
    const LoopNest& nest = plan.nest;
    const int64_t columns = unit % plan.blocks * plan.stage_columns;
    unit /= plan.blocks;
    const int64_t size = nest.rows.empty() ? 1 : nest.rows.back().size;
    range = {.row = unit % plan.row_blocks * thresholds::loops::kStageRows, .begin = columns};
    range.rows = std::min(thresholds::loops::kStageRows, size - range.row);
    range.end = std::min(columns + plan.stage_columns, nest.vector.size);
    unit /= plan.row_blocks;
    for (size_t o = 0; o < bases.size(); ++o) {
      bases[o] = static_cast<std::byte*>(operands[o]) + nest.offsets[o];
      steps[o] = nest.rows.empty() ? 0 : nest.rows.back().steps[o];
    }
    for (size_t d = outer.size(); d-- > 0;) {
      outer[d] = unit % nest.rows[d].size;
      unit /= nest.rows[d].size;
      for (size_t o = 0; o < bases.size(); ++o) bases[o] += outer[d] * nest.rows[d].steps[o];
    }
  }

  // The operand's own block, wherever it lies.
  BlockSide side(const StagedOperand& s) const {
    return {bases[s.operand] + range.row * s.row + range.begin * s.column, s.row, s.column};
  }
  BlockSide plain_side(uint32_t o) const {
    const int64_t column = plan.nest.vector.steps[o];
    return {bases[o] + range.row * steps[o] + range.begin * column, steps[o], column};
  }

  void copy() const {
    const auto& insns = plan.nest.insns;
    BlockSide sides[2];
    for (int k = 0; k < 2; ++k) {
      const uint32_t o = insns[size_t(k)].at;
      sides[k] = plain_side(o);
      for (const StagedOperand& s : plan.nest.staged) {
        if (s.operand == o) sides[k] = side(s);
      }
    }
    move_block(sides[1], sides[0], range.rows, range.end - range.begin, bytes(plan.nest.operands[insns[0].at].dtype));
  }

  void compute(std::byte* stage, std::byte* scratch) {
    const int64_t columns = range.end - range.begin;
    std::vector<BlockSide> outside, inside;
    for (const StagedOperand& s : plan.nest.staged) {
      const int size = bytes(plan.nest.operands[s.operand].dtype);
      outside.push_back(side(s));
      inside.push_back({stage, columns * size, size});
      if (!plan.nest.operands[s.operand].output) move_block(inside.back(), outside.back(), range.rows, columns, size);
      bases[s.operand] = stage - (range.row * columns + range.begin) * size;
      steps[s.operand] = columns * size;
      stage += thresholds::loops::kStageRows * thresholds::loops::kStageColumns * size;
    }
    run_region(plan, {bases, steps, outer, range}, scratch);
    for (size_t k = 0; k < plan.nest.staged.size(); ++k) {
      const auto& operand = plan.nest.operands[plan.nest.staged[k].operand];
      if (operand.output) move_block(outside[k], inside[k], range.rows, columns, bytes(operand.dtype));
    }
  }
};

}  // namespace

size_t region_bytes(const LoopPlan& plan) {
  if (plan.code) return code_scratch_bytes(*plan.code);
  return NestWalker::table_bytes(plan) + NestWalker::slots_bytes(plan) + NestWalker::unit_bytes(plan);
}

void run_region(const LoopPlan& plan, const LoopRegion& region, std::byte* scratch) {
  if (plan.code) return run_in_code(plan, region, scratch);
  interpret(plan, region, scratch);
}

void run_staged(const LoopPlan& plan, std::span<void* const> operands, int64_t begin, int64_t end) {
  const size_t count = operands.size(), outer = plan.nest.rows.empty() ? 0 : plan.nest.rows.size() - 1;
  const size_t tables = round_up((2 * count + outer) * 8);
  size_t staged = 0;
  for (const StagedOperand& s : plan.nest.staged) {
    staged += size_t(thresholds::loops::kStageRows * thresholds::loops::kStageColumns *
                     bytes(plan.nest.operands[s.operand].dtype));
  }
  std::byte* memory = thread_scratch(tables + staged + region_bytes(plan));
  auto** bases = reinterpret_cast<std::byte**>(memory);
  auto* words = reinterpret_cast<int64_t*>(bases + count);
  StagedUnit unit{plan, operands, {bases, count}, {words, count}, {words + count, outer}};
  for (int64_t u = begin; u < end; ++u) {
    unit.go_to(u);
    if (plan.is_copy) {
      unit.copy();
    } else {
      unit.compute(memory + tables, memory + tables + staged);
    }
  }
}

}  // namespace trine::host
