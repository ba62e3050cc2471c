// Sampling. Logprobs are of the model's own logits, before bias, penalties and temperature.
#include "serve/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "run/decoder/logits.h"

namespace trine::serve {

namespace {

// Below this share of the best token's probability a token is not drawn: it is past what f32 logits resolve.
constexpr float kFarBelow = 40.0f;

struct Candidate {
  float logit;
  int32_t token;
};

bool stands_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Logits of the tokens that may be taken. Of words of the mask that are all or nothing no bit is looked at.
struct Allowed {
  std::span<const float> logits;
  std::span<const uint8_t> mask;  // empty: all

  uint64_t word(size_t at) const {
    const size_t count = std::min<size_t>(64, logits.size() - at);
    uint64_t bits = mask.empty() ? ~uint64_t{0} : 0;
    if (at / 8 < mask.size()) std::memcpy(&bits, mask.data() + at / 8, std::min<size_t>(8, mask.size() - at / 8));
    return count < 64 ? bits & ((uint64_t{1} << count) - 1) : bits;
  }

  std::vector<Candidate> at_least(float least) const {
    std::vector<Candidate> found;
    for (size_t at = 0; at < logits.size(); at += 64) {
      uint64_t bits = word(at);
      if (bits == ~uint64_t{0} && !(most(&logits[at]) >= least)) continue;
      for (; bits; bits &= bits - 1)
        if (const size_t t = at + size_t(std::countr_zero(bits)); logits[t] >= least)
          found.push_back({logits[t], int32_t(t)});
    }
    return found;
  }

  // The first of the largest; 0 where none may be taken.
  int32_t best() const {
    int32_t found = -1;
    for (size_t at = 0; at < logits.size(); at += 64) {
      uint64_t bits = word(at);
      if (bits == ~uint64_t{0} && found >= 0 && !(most(&logits[at]) > logits[size_t(found)])) continue;
      for (; bits; bits &= bits - 1)
        if (const size_t t = at + size_t(std::countr_zero(bits)); found < 0 || logits[t] > logits[size_t(found)])
          found = int32_t(t);
    }
    return std::max(found, 0);
  }

  // Of 64 in a row, in lanes that a compiler keeps in registers.
  static float most(const float* x) {
    float lanes[16];
    std::copy(x, x + 16, lanes);
    for (int i = 16; i < 64; i += 16)
      for (int j = 0; j < 16; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    return *std::max_element(lanes, lanes + 16);
  }
};

void change(std::span<float> logits, const Sampling& how, const Seen& seen) {
  const auto at = [&](int32_t token) -> float* {
    return token >= 0 && size_t(token) < logits.size() ? &logits[size_t(token)] : nullptr;
  };
  if (how.repetition != 1.0f)
    for (const auto* counts : {&seen.output, &seen.prompt})
      for (const auto& [token, count] : *counts)
        if (float* l = at(token); l && (counts == &seen.output || !seen.output.contains(token)))
          *l = *l > 0 ? *l / how.repetition : *l * how.repetition;
  if (how.presence != 0.0f || how.frequency != 0.0f)
    for (const auto& [token, count] : seen.output)
      if (float* l = at(token)) *l -= how.presence + how.frequency * float(count);
  for (const auto& [token, by] : how.bias)
    if (float* l = at(token)) *l += by;
}

int32_t drawn(const Allowed& from, const Sampling& how, double at) {
  const int32_t first = from.best();
  const float best = from.logits[size_t(first)];
  const float far = best - kFarBelow * how.temperature;
  const float least = how.min_p > 0 ? std::max(far, best + how.temperature * std::log(how.min_p)) : far;
  std::vector<Candidate> all = from.at_least(least);
  if (all.empty()) return first;
  if (how.top_k > 0 && size_t(how.top_k) < all.size()) {
    std::nth_element(all.begin(), all.begin() + how.top_k - 1, all.end(), stands_before);
    all.resize(size_t(how.top_k));
  }
  std::sort(all.begin(), all.end(), stands_before);
  std::vector<double> weights(all.size());
  double total = 0;
  for (size_t i = 0; i < all.size(); ++i) total += weights[i] = std::exp(double(all[i].logit - best) / how.temperature);
  size_t count = all.size();
  if (how.top_p < 1.0f) {
    double sum = 0;
    for (count = 0; count < all.size() && sum < double(how.top_p) * total; ++count) sum += weights[count];
    count = std::max<size_t>(count, 1);
    total = 0;
    for (size_t i = 0; i < count; ++i) total += weights[i];
  }
  double sum = 0;
  for (size_t i = 0; i < count; ++i)
    if ((sum += weights[i]) > at * total) return all[i].token;
  return all[count - 1].token;
}

}  // namespace

double draw(uint64_t seed, uint32_t choice, uint32_t position) {
  uint32_t c[4] = {position, choice, 0x5eed, 0}, key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t next[4] = {uint32_t(b >> 32) ^ c[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ key[1],
                              uint32_t(a)};
    std::copy(next, next + 4, c);
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
  return double((uint64_t(c[0]) << 32 | c[1]) >> 11) * 0x1.0p-53;
}

float log_sum_exp(std::span<const float> logits) {
  const float best = *std::max_element(logits.begin(), logits.end());
  return best + std::log(run::exp_sum(logits, best));
}

Sampled logprob_of(std::span<const float> logits, int32_t token, int32_t top) {
  const float norm = log_sum_exp(logits);
  Sampled s{token, logits[size_t(token)] - norm, {}};
  if (top > 0) {
    std::vector<Candidate> all(logits.size());
    for (size_t t = 0; t < logits.size(); ++t) all[t] = {logits[t], int32_t(t)};
    const size_t count = std::min(size_t(top), all.size());
    std::partial_sort(all.begin(), all.begin() + std::ptrdiff_t(count), all.end(), stands_before);
    for (size_t i = 0; i < count; ++i) s.top.emplace_back(all[i].token, all[i].logit - norm);
  }
  return s;
}

Sampled sample(std::span<const float> logits, const Sampling& how, const Seen& seen, std::span<const uint8_t> mask,
               double at, std::vector<float>& scratch) {
  Allowed from{logits, mask};
  const bool penalised = how.repetition != 1.0f || how.presence != 0.0f || how.frequency != 0.0f;
  if (penalised || !how.bias.empty()) {
    scratch.assign(logits.begin(), logits.end());
    change(scratch, how, seen);
    from.logits = scratch;
  }
  const int32_t token = how.temperature <= 0.0f ? from.best() : drawn(from, how, at);
  if (how.logprobs >= 0) return logprob_of(logits, token, how.logprobs);
  return {token, 0, {}};
}

}  // namespace trine::serve
