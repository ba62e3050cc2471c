// Prepares and runs loop programs: cuts the work into units, walks the loops, calls the steps.
// A unit is a row, or a block of rows where the vector runs across them. Long rows are cut into parts, which threads
// share out when there are few units; the sums are the same either way.
#include <algorithm>
#include <cstring>

#include "base/pool.h"
#include "host/loops/loop.h"
#include "host/loops/plan.h"
#include "host/loops/walk.h"
#include "host/scratch.h"
#include "host/thresholds.h"

namespace trine::host {

std::byte* thread_scratch(size_t bytes) {
  static thread_local Memory memory;
  if (bytes > memory.size()) {
    memory = Memory();  // given back first
    memory = Memory((bytes + 4095) / 4096 * 4096);
    CHECK(memory.data(), "host memory is exhausted");
  }
  return memory.data();
}

namespace {

namespace tuned = thresholds::loops;

using arch::LoopStage;

void interpret_units(const LoopPlan& plan, std::span<void* const> operands, int64_t begin, int64_t end) {
  NestWalker w{plan, operands};
  const size_t own = NestWalker::table_bytes(plan) + NestWalker::slots_bytes(plan);
  std::byte* memory = thread_scratch(own + NestWalker::unit_bytes(plan));
  w.set_addresses(memory, memory + own);
  for (int64_t u = begin; u < end; ++u) {
    w.go_to_unit(u);
    w.run_unit();
  }
}

// Rows of the innermost row loop side by side in one call, or blocks of so many lanes along a vertical vector.
void run_units_in_code(const LoopPlan& plan, std::span<void* const> operands, int64_t begin, int64_t end,
                       int64_t block) {
  const LoopNest& nest = plan.nest;
  const int64_t all_blocks = nest.vertical ? (nest.vector.size + block - 1) / block : 1;
  const int64_t at_once = is_unblocked(*plan.code) ? all_blocks : plan.interp.block / block;
  const size_t tables = round_up((operands.size() + nest.rows.size()) * 8);
  std::byte* memory = thread_scratch(tables + code_scratch_bytes(*plan.code));
  auto* pointers = reinterpret_cast<std::byte**>(memory);
  auto* index = reinterpret_cast<int64_t*>(pointers + operands.size());
  const int64_t innermost = nest.rows.empty() ? 1 : nest.rows.back().size;
  for (int64_t u = begin; u < end;) {
    int64_t r = u / all_blocks, b = u - r * all_blocks, blocks = 1;
    LoopRange range{.row = r % innermost, .begin = 0, .end = nest.vector.size};
    if (all_blocks > 1) {
      blocks = std::min({all_blocks - b, end - u, at_once});
      range.begin = b * block;
      range.end = std::min(range.begin + blocks * block, nest.vector.size);
    } else {
      blocks = range.rows = std::min(innermost - range.row, end - u);
    }
    for (size_t o = 0; o < operands.size(); ++o) pointers[o] = static_cast<std::byte*>(operands[o]) + nest.offsets[o];
    r /= innermost;
    for (size_t d = nest.rows.size(); d-- > 1;) {
      const NestLoop& loop = nest.rows[d - 1];
      index[d - 1] = r % loop.size;
      r /= loop.size;
      for (size_t o = 0; o < operands.size(); ++o) pointers[o] += index[d - 1] * loop.steps[o];
    }
    std::span<const int64_t> steps;
    if (!nest.rows.empty()) steps = nest.rows.back().steps;
    run_code(*plan.code, {pointers, operands.size()}, steps, {index, nest.rows.size()}, range, memory + tables);
    u += blocks;
  }
}

void run_units(const LoopPlan& plan, std::span<void* const> operands, int64_t begin, int64_t end) {
  if (!plan.nest.staged.empty()) return run_staged(plan, operands, begin, end);
  if (plan.code) return run_units_in_code(plan, operands, begin, end, std::max<int64_t>(plan.interp.block, 1));
  interpret_units(plan, operands, begin, end);
}

// Few units of many lanes, each a row of its own: threads share out groups of them. False where lanes are few, too.
bool run_lanes(const LoopPlan& plan, std::span<void* const> operands, int64_t threads) {
  constexpr int64_t kGroup = 64;  // lanes: whole cache lines of any format
  const LoopNest& nest = plan.nest;
  if (!plan.code || !nest.vertical || !nest.staged.empty() || plan.interp.block < kGroup) return false;
  const int64_t groups = nest.row_count * ((nest.vector.size + kGroup - 1) / kGroup);
  if (groups < threads) return false;
  parallel_for(groups, (groups + threads - 1) / threads,
               [&](int64_t begin, int64_t end) { run_units_in_code(plan, operands, begin, end, kGroup); });
  return true;
}

// Few units with long rows: threads share out the parts, stage by stage.
void run_parts(const LoopPlan& plan, std::span<void* const> operands) {
  const size_t unit_bytes = round_up(NestWalker::unit_bytes(plan));
  const size_t own = NestWalker::table_bytes(plan) + NestWalker::slots_bytes(plan) + NestWalker::unit_bytes(plan);
  const size_t part_bytes = round_up(size_t(plan.interp.row_bytes));
  Scratch shared(unit_bytes * size_t(plan.units));
  std::byte* units = shared.as();
  auto with_unit = [&](int64_t u, auto&& body) {
    NestWalker w{plan, operands};
    std::byte* memory = thread_scratch(own);
    w.set_addresses(memory, units + size_t(u) * unit_bytes);
    w.go_to_unit(u);
    body(w);
  };
  for (const StageSteps& s : plan.interp.stages) {
    if (s.kind == LoopStage::once) {
      for (int64_t u = 0; u < plan.units; ++u) with_unit(u, [&](NestWalker& w) { w.run_once(s); });
      continue;
    }
    Scratch partial(part_bytes * size_t(plan.units * plan.parts));
    std::byte* results = partial.as();
    parallel_for(plan.units * plan.parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        with_unit(k / plan.parts, [&](NestWalker& w) {
          for (const LoopReduction& r : s.reductions) {
            w.address[r.part] = results + size_t(k) * part_bytes + plan.interp.storage[r.part].at;
          }
          w.run_part(s, k % plan.parts);
        });
      }
    });
    for (int64_t u = 0; u < plan.units; ++u) {
      with_unit(u, [&](NestWalker& w) {
        w.begin_totals(s);
        for (int64_t part = 0; part < plan.parts; ++part) {
          std::byte* from = results + size_t(u * plan.parts + part) * part_bytes;
          for (const LoopReduction& r : s.reductions) w.add_part(r, from + plan.interp.storage[r.part].at);
        }
      });
    }
  }
}

bool is_copy(const LoopNest& nest) {
  return nest.insns.size() == 2 && nest.insns[0].op == arch::LoopOp::load && nest.insns[1].op == arch::LoopOp::store &&
         nest.operands[nest.insns[0].at].dtype == nest.operands[nest.insns[1].at].dtype;
}

// A copy of short pieces, each whole on both sides: as loops over them, outermost first.
std::vector<MoveLoop> pieces_of(const LoopPlan& plan) {
  constexpr int64_t kBytesMax = 64;  // of a piece; longer ones are vectors
  const LoopNest& nest = plan.nest;
  if (!plan.is_copy || !nest.inner.empty() || !nest.repeated.empty() || nest.rows.empty()) return {};
  const uint32_t from = nest.insns[0].at, to = nest.insns[1].at;
  const int64_t size = bytes(nest.operands[to].dtype);
  if (nest.vector.size * size > kBytesMax || nest.vector.steps[from] != size || nest.vector.steps[to] != size)
    return {};
  std::vector<MoveLoop> out;
  for (const NestLoop& row : nest.rows) out.push_back({row.size, row.steps[to], row.steps[from]});
  out.push_back({nest.vector.size, size, size});
  return out;
}

void copy_pieces(const LoopPlan& plan, std::span<void* const> operands) {
  const LoopNest& nest = plan.nest;
  const uint32_t from = nest.insns[0].at, to = nest.insns[1].at;
  const int64_t size = bytes(nest.operands[to].dtype), count = plan.pieces[0].count;
  int64_t each = size;
  for (const MoveLoop& loop : std::span(plan.pieces).subspan(1)) each *= loop.count;
  const int64_t grain = std::max<int64_t>(1, thresholds::move::kParallelBytes / 4 / each);
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    std::vector<MoveLoop> part = plan.pieces;
    part[0].count = end - begin;
    copy_loops(static_cast<std::byte*>(operands[to]) + nest.offsets[to] + begin * part[0].to,
               static_cast<const std::byte*>(operands[from]) + nest.offsets[from] + begin * part[0].from, part,
               size_t(size));
  });
}

int64_t unit_cost(const LoopPlan& plan) {
  const LoopNest& nest = plan.nest;
  int64_t lanes = nest.vertical ? plan.interp.block : nest.vector.size, sum = 20;
  if (!nest.staged.empty()) lanes = 2 * tuned::kStageRows * tuned::kStageColumns;
  for (const auto& n : nest.insns) {
    bool each = nest.stages[n.stage] == LoopStage::each;
    int64_t elements = each ? nest.inner_count * lanes : nest.vertical ? lanes : 1;
    sum += elements * (cost(n.op) * 4 + 4) / 32 + 2;
  }
  return sum;
}

// One range, too little to share out: its words are known before it runs.
bool is_one_range(const LoopPlan& plan) {
  if (!plan.pieces.empty()) return false;
  const bool whole = plan.blocks == 1 || (plan.code && is_unblocked(*plan.code) && plan.nest.rows.empty());
  return plan.code && !plan.empty && plan.nest.staged.empty() && plan.nest.repeated.empty() &&
         plan.nest.rows.size() <= 1 && whole && plan.units * plan.unit_cost < 2 * tuned::kTaskCost;
}

}  // namespace

size_t LoopCall::scratch_bytes(const LoopKernel& kernel) {
  return is_one_range(kernel.plan()) ? round_up(code_scratch_bytes(*kernel.plan().code)) : 0;
}

LoopCall::LoopCall(const LoopKernel& kernel, std::span<void* const> operands, std::byte* scratch)
    : kernel_(&kernel), operands_(operands.begin(), operands.end()), scratch_(scratch) {
  const LoopPlan& plan = kernel.plan();
  if (!is_one_range(plan)) return;
  code_ = plan.code.get();
  std::vector<std::byte*> at;
  for (size_t o = 0; o < operands.size(); ++o)
    at.push_back(static_cast<std::byte*>(operands[o]) + plan.nest.offsets[o]);
  const std::vector<NestLoop>& rows = plan.nest.rows;
  LoopRange range{.begin = 0, .end = plan.nest.vector.size};
  if (!rows.empty()) range.rows = rows[0].size;
  set_call(*code_, at, rows.empty() ? std::span<const int64_t>() : rows[0].steps, {}, range, scratch);
  if (!rows.empty()) words_.assign(scratch, scratch + call_bytes(*code_));
}

void LoopCall::run() const {
  if (!code_) return host::run(*kernel_, operands_);
  if (!words_.empty()) std::memcpy(scratch_, words_.data(), words_.size());
  enter(*code_, scratch_);
}

const void* LoopCall::inner() const { return code_ && words_.empty() ? inner_entry(*code_) : nullptr; }

std::shared_ptr<const LoopPlan> make_plan(const arch::LoopProgram& program, const LoopOptions& options, bool fixed) {
  auto plan = std::make_shared<LoopPlan>();
  plan->nest = make_nest(program, fixed);
  const LoopNest& nest = plan->nest;
  plan->interp = make_interp(nest, loop_kernels(options.simd));
  const int64_t stage_rows = nest.rows.empty() ? 1 : std::clamp<int64_t>(nest.rows.back().size, 1, tuned::kStageRows);
  plan->stage_columns = tuned::kStageRows / stage_rows * tuned::kStageColumns;
  const int64_t block = nest.staged.empty() ? std::max<int64_t>(plan->interp.block, 1) : plan->stage_columns;
  if (!nest.staged.empty() && !nest.rows.empty()) {
    plan->row_blocks = (nest.rows.back().size + tuned::kStageRows - 1) / tuned::kStageRows;
  }
  plan->is_copy = is_copy(nest);
  plan->blocks = nest.vertical ? (nest.vector.size + block - 1) / block : 1;
  plan->units = nest.row_count * plan->blocks;
  if (plan->row_blocks > 1 || !nest.staged.empty()) {
    const int64_t rows = nest.rows.empty() ? 1 : nest.rows.back().size;
    plan->units = rows == 0 ? 0 : nest.row_count / rows * plan->row_blocks * plan->blocks;
  }
  plan->empty = plan->units == 0;
  int64_t cut = nest.inner.empty() ? nest.vertical ? 1 : nest.vector.size : nest.inner[0].size;
  plan->parts = nest.inner_count == 0 ? 0 : (cut + nest.inner_cut - 1) / nest.inner_cut;
  plan->unit_cost = unit_cost(*plan);
  const bool whole_rows = !fixed && nest.staged.empty() && nest.vector.size <= plan->interp.block;
  if (whole_rows) plan->pieces = pieces_of(*plan);
  const bool codes = options.machine_code && options.simd == Simd::avx2 && !plan->empty;
  if (codes) plan->code = make_code(nest, plan->interp.block, whole_rows, options.bf16);
  return plan;
}

Result<LoopKernel> prepare(const arch::LoopProgram& program, const LoopOptions& options) {
  TRY(verify(program));
  return LoopKernel(make_plan(program, options, false));
}

static void run_whole(const LoopPlan& plan, std::span<void* const> operands) {
  if (!plan.pieces.empty()) return copy_pieces(plan, operands);
  const int64_t total = plan.units * plan.unit_cost;
  if (total < 2 * tuned::kTaskCost) return run_units(plan, operands, 0, plan.units);
  const int64_t threads = pool_threads();
  const int64_t few = plan.code ? threads : 4 * threads;
  if (threads > 1 && plan.units < threads && run_lanes(plan, operands, threads)) return;
  if (threads > 1 && plan.units < few && plan.parts > 1) return run_parts(plan, operands);
  const int64_t grain = std::max<int64_t>(1, tuned::kTaskCost / plan.unit_cost);
  parallel_for(plan.units, grain, [&](int64_t begin, int64_t end) { run_units(plan, operands, begin, end); });
}

// With repeated operands written out: the nest adds their offsets, so they are taken off.
static void run_repeated(const LoopPlan& plan, std::span<void* const> operands) {
  const LoopNest& nest = plan.nest;
  std::vector<void*> all(operands.begin(), operands.end());
  size_t total = 0;
  for (const RepeatedOperand& r : nest.repeated)
    total += round_up(size_t(r.count * r.times * bytes(nest.operands[r.operand].dtype)));
  const Scratch memory(total);
  std::byte* to = memory.as();
  for (const RepeatedOperand& r : nest.repeated) {
    const int64_t size = bytes(nest.operands[r.operand].dtype), once = r.count * size;
    const std::byte* from = static_cast<const std::byte*>(operands[r.operand]) + nest.offsets[r.operand];
    for (int64_t i = 0; i < r.count; ++i) std::memcpy(to + i * size, from + i * r.step, size_t(size));
    for (int64_t t = 1; t < r.times; ++t) std::memcpy(to + t * once, to, size_t(once));
    all[r.operand] = to - nest.offsets[r.operand];
    to += round_up(size_t(once * r.times));
  }
  run_whole(plan, all);
}

void run(const LoopKernel& kernel, std::span<void* const> operands) {
  const LoopPlan& plan = kernel.plan();
  if (plan.empty) return;
  plan.nest.repeated.empty() ? run_whole(plan, operands) : run_repeated(plan, operands);
}

}  // namespace trine::host
