// The interpreter at work: walks a unit's stages and loops and calls the steps.
// Not how work is shared out: run.cpp and epilogue.cpp do that, each with Walkers of their own threads.
#pragma once

#include <algorithm>
#include <span>

#include "host/loops/plan.h"

namespace trine::host {

inline size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

// One thread's view of a plan: where every value and operand is now.
struct NestWalker {
  const LoopPlan& plan;
  std::span<void* const> operands;
  std::byte** address = nullptr;  // per value
  std::byte** row = nullptr;      // per operand, at the current row
  std::byte** now = nullptr;      // per operand, at the current inner index
  int64_t* index = nullptr;       // of rows, then of inner
  std::byte* buffered = nullptr;
  int64_t lane0 = 0, lanes = 1;  // along a vertical vector
  size_t operand_count = operands.size();

  const LoopNest& nest() const { return plan.nest; }
  const LoopInterp& interp() const { return plan.interp; }

  static size_t table_bytes(const LoopPlan& p) {
    size_t entries = p.interp.storage.size() + 2 * p.nest.operands.size() + p.nest.rows.size() + p.nest.inner.size();
    return round_up(entries * 8);
  }
  static size_t slots_bytes(const LoopPlan& p) { return size_t(p.interp.slots * p.interp.slot_bytes); }
  static size_t unit_bytes(const LoopPlan& p) {
    return round_up(size_t(p.interp.row_bytes)) + size_t(p.interp.buffered_bytes);
  }

  // `tables` holds the tables and slots of this thread, `unit` what belongs to a unit.
  void set_addresses(std::byte* tables, std::byte* unit) {
    const LoopInterp& in = interp();
    const size_t count = nest().operands.size();
    address = reinterpret_cast<std::byte**>(tables);
    row = address + in.storage.size();
    now = row + count;
    index = reinterpret_cast<int64_t*>(now + count);
    std::byte* slots = tables + table_bytes(plan);
    for (size_t i = 0; i < in.storage.size(); ++i) {
      const ValueStorage& p = in.storage[i];
      if (p.kind == StorageKind::slot) address[i] = slots + p.at * in.slot_bytes;
      if (p.kind == StorageKind::constant) {
        address[i] = reinterpret_cast<std::byte*>(const_cast<uint64_t*>(in.constants.data())) + p.at;
      }
    }
    set_unit_addresses(unit);
  }
  void set_unit_addresses(std::byte* unit) {
    const LoopInterp& in = interp();
    for (size_t i = 0; i < in.storage.size(); ++i) {
      if (in.storage[i].kind == StorageKind::row) address[i] = unit + in.storage[i].at;
    }
    buffered = unit + round_up(size_t(in.row_bytes));
  }

  void go_to_unit(int64_t unit) {
    int64_t r = unit / plan.blocks;
    lane0 = (unit - r * plan.blocks) * interp().block;
    lanes = nest().vertical ? std::min(interp().block, nest().vector.size - lane0) : 1;
    for (size_t o = 0; o < operand_count; ++o) row[o] = static_cast<std::byte*>(operands[o]) + nest().offsets[o];
    for (size_t d = nest().rows.size(); d-- > 0;) {
      const NestLoop& loop = nest().rows[d];
      int64_t next = r / loop.size;
      index[d] = r - next * loop.size;
      r = next;
      for (size_t o = 0; o < operand_count; ++o) row[o] += index[d] * loop.steps[o];
    }
  }

  void run_unit() {
    for (const StageSteps& s : interp().stages) {
      if (s.kind == arch::LoopStage::once) {
        run_once(s);
        continue;
      }
      begin_totals(s);
      for (int64_t part = 0; part < plan.parts; ++part) {
        run_part(s, part);
        for (const LoopReduction& r : s.reductions) add_part(r, address[r.part]);
      }
    }
  }

  void run_once(const StageSteps& s) {
    std::copy(row, row + operand_count, now);
    run_steps(s, lane0, lanes, 0);
  }

  void begin_totals(const StageSteps& s) {
    for (const LoopReduction& r : s.reductions) r.identity(address[r.value], nullptr, nullptr, nullptr, lanes, r.aux);
  }
  void add_part(const LoopReduction& r, std::byte* part) {
    r.pair(address[r.value], address[r.value], part, nullptr, lanes, r.aux);
    if (r.wrap) r.wrap(address[r.value], address[r.value], nullptr, nullptr, lanes, r.aux);
  }

  // Leaves each reduction's partial result in the first lanes of its accumulators.
  void run_part(const StageSteps& s, int64_t part) {
    const int64_t count = nest().vertical ? lanes : 0;
    for (const LoopReduction& r : s.reductions) {
      r.identity(address[r.part], nullptr, nullptr, nullptr, count ? count : kAccumulatorBytes / bytes(r.lane), r.aux);
    }
    const int64_t begin = part * nest().inner_cut;
    if (nest().inner.empty()) {
      std::copy(row, row + operand_count, now);
      if (nest().vertical) {
        run_chunk(s, lane0, lanes, 0);
      } else {
        run_vector(s, begin, std::min(begin + nest().inner_cut, nest().vector.size), 0);
      }
    } else {
      walk_inner(s, begin, std::min(begin + nest().inner_cut, nest().inner[0].size));
    }
    if (count) return;
    for (const LoopReduction& r : s.reductions) r.fold(address[r.part], address[r.part], nullptr, nullptr, 1, r.aux);
  }

  void walk_inner(const StageSteps& s, int64_t begin, int64_t end) {
    const auto& loops = nest().inner;
    int64_t* at = index + nest().rows.size();
    const int64_t rest = nest().inner_count / loops[0].size;
    for (size_t o = 0; o < operand_count; ++o) now[o] = row[o] + begin * loops[0].steps[o];
    std::fill(at, at + loops.size(), 0);
    at[0] = begin;
    for (int64_t position = begin * rest, last = end * rest; position < last; ++position) {
      if (nest().vertical) {
        run_chunk(s, lane0, lanes, position);
      } else {
        run_vector(s, 0, nest().vector.size, position);
      }
      for (size_t d = loops.size(); d-- > 0;) {
        const NestLoop& loop = loops[d];
        const bool wraps = ++at[d] == loop.size && d > 0;
        const int64_t by = wraps ? 1 - loop.size : 1;
        for (size_t o = 0; o < operand_count; ++o) now[o] += by * loop.steps[o];
        if (!wraps) break;
        at[d] = 0;
      }
    }
  }

  void run_vector(const StageSteps& s, int64_t begin, int64_t end, int64_t position) {
    const int64_t block = interp().block;
    for (int64_t v = begin; v < end; v += block) run_chunk(s, v, std::min(block, end - v), position);
  }

  void run_chunk(const StageSteps& s, int64_t v, int64_t n, int64_t position) {
    run_steps(s, v, n, position);
    for (const LoopReduction& r : s.reductions) {
      if (nest().vertical) {
        r.accumulate(address[r.part], address[r.part], address[r.input], nullptr, n, r.aux);
      } else {
        r.accumulate(address[r.part], address[r.input], nullptr, nullptr, n, r.aux);
      }
    }
  }

  void set_buffered_addresses(int64_t v, int64_t position) {
    const LoopInterp& in = interp();
    const int64_t width = nest().vertical ? in.block : nest().vector.size;
    const int64_t first = nest().vertical ? lane0 : 0;
    for (uint32_t k : in.buffered) {
      const ValueStorage& p = in.storage[k];
      int64_t element = position * width + (p.uniform ? 0 : v - first);
      address[k] = buffered + p.at + element * p.lane_bytes;
    }
  }

  void run_steps(const StageSteps& s, int64_t v, int64_t lanes_now, int64_t position) {
    if (!interp().buffered.empty()) set_buffered_addresses(v, position);
    for (const InterpStep& t : s.steps) {
      const int64_t n = t.uniform ? 1 : lanes_now;
      switch (t.kind) {
        case StepKind::compute:
          t.fn(address[t.d], address[t.a], address[t.b], address[t.c], n, t.aux);
          break;
        case StepKind::load_view:
        case StepKind::store_view:
          address[t.d] = now[t.operand] + v * nest().vector.steps[t.operand];
          break;
        case StepKind::load:
          t.fn(address[t.d], now[t.operand] + v * nest().vector.steps[t.operand], nullptr, nullptr, n, t.aux);
          break;
        case StepKind::pick:
          t.fn(address[t.d], address[t.a], now[t.operand] + v * nest().vector.steps[t.operand], nullptr, n, t.aux);
          break;
        case StepKind::store:
          t.fn(now[t.operand] + v * nest().vector.steps[t.operand], address[t.a], nullptr, nullptr, n, t.aux);
          break;
        case StepKind::iota_vector:
        case StepKind::iota_loop:
          run_iota(t, v, n);
          break;
      }
      if (t.wrap) t.wrap(address[t.d], address[t.d], nullptr, nullptr, n, t.aux);
    }
  }

  void run_iota(const InterpStep& t, int64_t v, int64_t n) {
    LoopAux aux = t.aux;
    aux.start = t.loop.kind == LoopKind::vector  ? v
                : t.loop.kind == LoopKind::row   ? index[t.loop.index]
                : t.loop.kind == LoopKind::inner ? index[nest().rows.size() + t.loop.index]
                                                 : 0;
    t.fn(address[t.d], nullptr, nullptr, nullptr, n, aux);
  }
};

// This thread's own memory, at least so many bytes; what was in it is lost.
std::byte* thread_scratch(size_t bytes);

}  // namespace trine::host
