// Routers of the zoo's families, as python/trine/models/experts.py has them; and the step through the chosen experts.
#include "run/decoder/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/pool.h"
#include "run/decoder/decoder.h"

namespace trine::run {

using host::packed_kernels;

namespace {

constexpr float kNever = -1e9f;  // a score that is not chosen

float exp_of(float x) { return float(std::exp(double(x))); }
float sigmoid(float x) { return 1.0f / (1.0f + exp_of(-x)); }

std::vector<float> scores_of(const RouterShape& r, std::span<const float> logits) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (r.kind == RouterShape::Kind::sigmoid) {
    for (float& s : scores) s = sigmoid(s);
    return scores;
  }
  const float most = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& s : scores) sum += s = exp_of(s - most);
  for (float& s : scores) s /= sum;
  return scores;
}

// Experts outside the best groups are not chosen from.
void among_groups(const RouterShape& r, std::span<float> choice) {
  const size_t each = choice.size() / size_t(r.groups);
  std::vector<float> value(static_cast<size_t>(r.groups)), own(each);
  for (size_t g = 0; g < value.size(); ++g) {
    std::copy_n(choice.begin() + long(g * each), each, own.begin());
    std::sort(own.begin(), own.end(), std::greater<>());
    value[g] = std::accumulate(own.begin(), own.begin() + r.of_group, 0.0f);
  }
  std::vector<float> sorted = value;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const float least = sorted[size_t(r.best) - 1];
  for (size_t i = 0; i < choice.size(); ++i)
    if (value[i / each] < least) choice[i] = kNever;
}

size_t best_of(std::span<const float> scores) {
  return size_t(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// The best, then the best of the rest, each weighed among the rivals near to it.
void one_by_one(const RouterShape& r, std::span<const float> logits, std::span<int32_t> experts,
                std::span<float> weights) {
  std::vector<float> left(logits.begin(), logits.end());
  for (size_t c = 0; c < experts.size(); ++c) {
    const size_t which = best_of(left);
    const float best = left[which];
    float sum = 0;
    for (size_t e = 0; e < left.size(); ++e) {
      const bool far = (best - logits[e]) / std::max(std::abs(logits[e]), best) > 2 * r.jitter;
      if (!far) sum += exp_of(left[e] - best);
    }
    experts[c] = int32_t(which), weights[c] = 1.0f / sum;
    left[which] = kNever;
  }
}

}  // namespace

void route(const RouterShape& r, std::span<const float> logits, std::span<const float> correction,
           std::span<int32_t> experts, std::span<float> weights) {
  if (r.kind == RouterShape::Kind::mixer) return one_by_one(r, logits, experts, weights);
  const std::vector<float> scores = scores_of(r, logits);
  std::vector<float> choice = scores;
  for (size_t e = 0; e < correction.size(); ++e) choice[e] += correction[e];
  if (r.groups > 1) among_groups(r, choice);
  float sum = 0;
  for (size_t c = 0; c < experts.size(); ++c) {
    const size_t which = best_of(choice);
    experts[c] = int32_t(which), weights[c] = scores[which];
    choice[which] = 2 * kNever;
    sum += weights[c];
  }
  for (float& w : weights) w = (r.normed ? w / sum : w) * r.scale;
}

// Rows are gathered by expert. A row adds up what its experts give in the order of their numbers, whoever else is
// there.
void Decoder::mixture(std::span<const TokenRun> runs, int index, const float* x, float* y) {
  const Layer& l = layers_[size_t(index)];
  const LayerShape& shape = shape_.layers[size_t(index)];
  const size_t rows = rows_.size(), count = l.experts.size(), chosen = size_t(shape_.router.chosen);
  const size_t width = size_t(shape_.width);
  scores_.resize(rows * count), chosen_.resize(rows * chosen), shares_.resize(rows * chosen);
  project(runs, {{&l.router, scores_.data()}}, x, shape_.width);
  const std::span<const float> correction =
      l.correction ? std::span<const float>(*l.correction) : std::span<const float>();
  for (size_t i = 0; i < rows; ++i)
    route(shape_.router, std::span(scores_).subspan(i * count, count), correction,
          std::span(chosen_).subspan(i * chosen, chosen), std::span(shares_).subspan(i * chosen, chosen));
  std::fill(y, y + rows * width, 0.0f);
  std::vector<std::vector<std::pair<size_t, float>>> of(count);
  for (size_t i = 0; i < rows * chosen; ++i) of[size_t(chosen_[i])].emplace_back(i / chosen, shares_[i]);
  for (size_t e = 0; e < count; ++e) {
    if (of[e].empty()) continue;
    const int64_t own = int64_t(of[e].size());
    gathered_.resize(of[e].size() * width), part_.resize(of[e].size() * width);
    for (size_t i = 0; i < of[e].size(); ++i)
      std::copy_n(x + of[e][i].first * width, width, gathered_.data() + i * width);
    expert(l.experts[e], shape.ffn, gathered_.data(), own, part_.data());
    for (size_t i = 0; i < of[e].size(); ++i)
      packed_kernels().add(y + of[e][i].first * width, part_.data() + i * width, of[e][i].second, shape_.width);
  }
  if (l.shared.up) share(runs, index, x, y);
}

// An MLP over rows of no sequence in particular.
void Decoder::expert(const Mlp& m, int64_t ffn, const float* x, int64_t rows, float* y) {
  if (shape_.gated)
    times({{&m.gate, gate_.data()}, {&m.up, up_.data()}}, x, rows, shape_.width);
  else
    times({{&m.up, up_.data()}}, x, rows, shape_.width);
  times({{&m.down, y}}, activated(m, rows, ffn), rows, ffn);
}

// The expert that every token goes to, weighed by a gate in some families.
void Decoder::share(std::span<const TokenRun> runs, int index, const float* x, float* y) {
  const Layer& l = layers_[size_t(index)];
  const size_t rows = rows_.size(), width = size_t(shape_.width);
  part_.resize(rows * width), scores_.resize(rows);
  expert(l.shared, l.shared.up.w->outputs(), x, int64_t(rows), part_.data());
  if (l.shared_gate) project(runs, {{&l.shared_gate, scores_.data()}}, x, shape_.width);
  for (size_t i = 0; i < rows; ++i)
    packed_kernels().add(y + i * width, part_.data() + i * width, l.shared_gate ? sigmoid(scores_[i]) : 1.0f,
                         shape_.width);
}

}  // namespace trine::run
