// Looking up a step's time.
#include "serve/cost.h"

#include <algorithm>

#include "base/text.h"

namespace trine::serve {

Result<void> CostGrid::check(const char* what) const {
  if (sizes.empty() || contexts.empty() || seconds.size() != sizes.size() * contexts.size())
    return fail(Code::invalid, cat("times of ", what, ": ", sizes.size(), " sizes, ", contexts.size(), " contexts, ",
                                   seconds.size(), " times"));
  if (!std::is_sorted(sizes.begin(), sizes.end()) || !std::is_sorted(contexts.begin(), contexts.end()) ||
      sizes[0] <= 0 || contexts[0] < 0)
    return fail(Code::invalid, cat("times of ", what, " are not in the order of their buckets"));
  for (const double s : seconds)
    if (!(s > 0)) return fail(Code::invalid, cat("a time of ", s, " s among those of ", what));
  return {};
}

Result<void> CostTable::check() const {
  TRY(prompt.check("prompts"));
  return decode.check("decoding");
}

int32_t CostGrid::bucket(int32_t size) const {
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), size);
  return at == sizes.end() ? sizes.back() : *at;
}

double CostGrid::at(int32_t size, double context) const {
  const size_t i = size_t(std::lower_bound(sizes.begin(), sizes.end(), bucket(size)) - sizes.begin());
  const double* row = seconds.data() + i * contexts.size();
  const double runs =
      size > sizes.back() ? double((size + sizes.back() - 1) / sizes.back()) : 1.0;  // one program after the other
  if (contexts.size() == 1 || context <= contexts[0]) return runs * row[0];
  size_t j = size_t(std::upper_bound(contexts.begin(), contexts.end(), context) - contexts.begin());
  j = std::min(j, contexts.size() - 1);
  const double a = contexts[j - 1], b = contexts[j], share = b > a ? (context - a) / (b - a) : 0.0;
  return runs * std::max(row[j - 1] + (row[j] - row[j - 1]) * share, row[0]);
}

double share_of(const CostTable& t, const StepRow& row) {
  const Sequence& s = *row.sequence;
  const int32_t reads = std::max(s.reads, row.count);
  return t.prompt.at(reads, s.length) * row.count / reads;
}

namespace {

// Guessed tokens are rows of the program, and see the keys that their sequence reads once.
double decode_seconds(const CostGrid& grid, int32_t rows, int32_t sequences, double context) {
  if (rows == sequences) return grid.at(rows, context);
  const double least = grid.contexts[0];
  return grid.at(rows, least) + std::max(0.0, grid.at(sequences, context) - grid.at(sequences, least));
}

int32_t decoding(const StepPlan& plan) { return int32_t(plan.rows.size()) - plan.prompt_rows; }

}  // namespace

StepCost cost_of(const CostTable& t, const StepPlan& plan) {
  StepCost c;
  if (!t || plan.rows.empty()) return c;
  c.together = plan.prompt_tokens;
  int32_t rows = plan.prompt_rows;
  int64_t context = plan.prompt_context;
  for (size_t i = plan.rows.size() - size_t(plan.prompt_rows); i < plan.rows.size(); ++i) {
    const StepRow& row = plan.rows[i];
    if (!row.sequence->in_shares) continue;
    c.shares += share_of(t, row);
    c.together -= row.count, context -= row.start + row.count, --rows;
  }
  c.prompt = c.shares + (c.together ? t.prompt.at(c.together, double(context) / rows) : 0.0);
  if (plan.decode_rows)
    c.decode =
        decode_seconds(t.decode, plan.decode_rows, decoding(plan), double(plan.decode_context) / plan.decode_rows);
  c.launch = t.launch * ((plan.prompt_tokens != 0) + (plan.decode_rows != 0));
  return c;
}

StepCost draft_cost_of(const CostTable& t, const StepPlan& plan) {
  StepCost c = cost_of(t, plan);
  c.decode = 0, c.launch = plan.prompt_tokens ? t.launch : 0;
  for (int32_t round = 0;; ++round) {
    int32_t rows = 0;
    int64_t context = 0;
    for (int32_t i = 0; i < decoding(plan); ++i)
      if (const StepRow& row = plan.rows[size_t(i)]; row.count > round) ++rows, context += row.sequence->length + round;
    if (!t || !rows) return c;
    c.decode += t.decode.at(rows, double(context) / rows), c.launch += t.launch;
  }
}

}  // namespace trine::serve
