// A row for each program of a step; see step_log.h.
#include "serve/step_log.h"

#include <algorithm>

#include "base/format/json.h"
#include "base/text.h"
#include "run/profile/ran.h"

namespace trine::serve {

namespace {

constexpr uint32_t kStep = 5;  // RunRow::kind

// The largest timed context that is not above what is seen: the program that is shown takes no longer than the step.
int32_t context_below(const CostGrid& grid, double seen) {
  const auto above = std::upper_bound(grid.contexts.begin(), grid.contexts.end(), seen);
  return above == grid.contexts.begin() ? *above : *(above - 1);
}

int32_t runs_of(const CostGrid& grid, int32_t size) {
  return std::max(1, (size + grid.sizes.back() - 1) / grid.sizes.back());
}

}  // namespace

int64_t StepLog::begin_ns() { return run::RunRecord::process().log() ? run::wall_ns() : 0; }

void StepLog::add(int64_t begin_ns, const CostTable& table, const StepPlan& plan, const StepCost& cost) const {
  if (!begin_ns || !table || about_.empty()) return;
  // Both programs of a step have its time on the host: a reader of that clock sees one.
  const int64_t took_ns = run::wall_ns() - begin_ns;
  if (plan.prompt_tokens)
    add(begin_ns, took_ns, "prefill", table.prompt.bucket(plan.prompt_tokens), 0,
        runs_of(table.prompt, plan.prompt_tokens), cost.prompt);
  if (plan.decode_rows)
    add(begin_ns, took_ns, "decode", table.decode.bucket(plan.decode_rows),
        context_below(table.decode, double(plan.decode_context) / plan.decode_rows),
        runs_of(table.decode, plan.decode_rows), cost.decode);
}

void StepLog::add_guesses(int64_t begin_ns, const CostTable& table, const StepPlan& plan, const StepCost& cost) const {
  if (!begin_ns || !table || about_.empty()) return;
  const int64_t took_ns = run::wall_ns() - begin_ns;
  const int32_t sequences = int32_t(plan.rows.size()) - plan.prompt_rows;
  int32_t rounds = 0;
  for (int32_t i = 0; i < sequences; ++i) rounds = std::max(rounds, plan.rows[size_t(i)].count);
  if (plan.prompt_tokens)
    add(begin_ns, took_ns, "prefill", table.prompt.bucket(plan.prompt_tokens), 0,
        runs_of(table.prompt, plan.prompt_tokens), cost.prompt);
  if (sequences)
    add(begin_ns, took_ns, "decode", table.decode.bucket(sequences),
        context_below(table.decode, double(plan.decode_context) / plan.decode_rows), rounds, cost.decode);
}

void StepLog::add(int64_t begin_ns, int64_t took_ns, const char* phase, int32_t size, int32_t context, int32_t runs,
                  double seconds) const {
  run::RunLog* const log = run::RunRecord::process().log();
  if (!log) return;
  const uint32_t what = log->what(cat("serve ", phase, " ", size, " ", context), [&] {
    return Json::object()
        .set("serve", std::string(phase))
        .set("size", int64_t(size))
        .set("context", int64_t(context))
        .set("source", log->keep(about_, ".serve"))
        .text();
  });
  for (int32_t i = 0; i < runs; ++i)
    log->add({.begin_ns = begin_ns,
              .took_ns = took_ns,
              .kind = kStep,
              .what = what,
              .device = uint32_t(device_),
              .devices = 1,
              .bytes = int64_t(seconds / runs * 1e12)});
}

}  // namespace trine::serve
