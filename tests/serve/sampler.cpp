// Sampling against its definition: frequencies of draws, what top-k, top-p and min-p leave, penalties, logprobs.
#include "serve/sampler.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/testing.h"

using namespace trine::serve;

namespace {

std::vector<float> logits_of(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = std::normal_distribution<float>(0, 2)(random);
  return v;
}

}  // namespace

TEST_CASE("draws are even, and differ by seed, choice and position") {
  double sum = 0;
  for (uint32_t i = 0; i < 20000; ++i) sum += draw(1, 0, i);
  CHECK(sum / 20000 == doctest::Approx(0.5).epsilon(0.02));
  CHECK(draw(1, 0, 5) == draw(1, 0, 5));
  CHECK(draw(1, 0, 5) != draw(2, 0, 5));
  CHECK(draw(1, 0, 5) != draw(1, 1, 5));
}

TEST_CASE("tokens come as often as the softmax says") {
  const auto logits = logits_of(3, 12);
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    Sampling how;
    how.temperature = temperature;
    std::vector<double> p(12), seen(12, 0);
    double total = 0;
    for (size_t i = 0; i < 12; ++i) total += p[i] = std::exp(double(logits[i]) / double(temperature));
    std::vector<float> scratch;
    const int draws = 40000;
    for (int i = 0; i < draws; ++i)
      seen[size_t(sample(logits, how, {}, {}, draw(9, 0, uint32_t(i)), scratch).token)] += 1.0 / draws;
    for (size_t i = 0; i < 12; ++i)
      CHECK(std::abs(seen[i] - p[i] / total) < 4 * std::sqrt(p[i] / total / draws) + 1e-4);
  }
}

TEST_CASE("top-k, top-p, min-p, masks and bias leave what they say") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto logits = logits_of(seed, 200);
    std::vector<float> sorted = logits, scratch;
    std::sort(sorted.rbegin(), sorted.rend());
    for (uint32_t i = 0; i < 60; ++i) {
      const double at = draw(seed, 0, i);
      Sampling how;
      how.top_k = 5;
      CHECK(logits[size_t(sample(logits, how, {}, {}, at, scratch).token)] >= sorted[4]);
      how = {};
      how.min_p = 0.2f;
      CHECK(logits[size_t(sample(logits, how, {}, {}, at, scratch).token)] >= sorted[0] + std::log(0.2f) - 1e-5f);
      how = {};
      how.top_p = 0.3f;
      double total = 0, before = 0;
      for (const float v : logits) total += std::exp(double(v));
      const float taken = logits[size_t(sample(logits, how, {}, {}, at, scratch).token)];
      for (const float v : logits) before += v > taken ? std::exp(double(v)) : 0;
      CHECK(before / total < 0.3 + 1e-9);
      std::vector<uint8_t> mask(25, 0);
      mask[3] = 4;
      CHECK(sample(logits, {}, {}, mask, at, scratch).token == 26);
      how = {};
      how.bias[17] = 100;
      CHECK(sample(logits, how, {}, {}, at, scratch).token == 17);
    }
  }
}

TEST_CASE("a mask of any length leaves what a look at every bit leaves") {
  std::mt19937 random(5);
  std::vector<float> scratch;
  for (int round = 0; round < 300; ++round) {
    const int count = 1 + int(random() % 700);
    auto logits = logits_of(unsigned(round), count);
    for (float& l : logits) l = std::round(l);  // many are equal: the first of them is taken
    std::vector<uint8_t> mask(size_t(count + 7) / 8 -
                              size_t(round % 7 == 0));  // a short one allows nothing past its end
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] = random() % 3 == 0 ? uint8_t(random()) : (i / 11 + size_t(round)) % 2 ? uint8_t{0xff} : uint8_t{0};
    const auto may = [&](int t) { return t / 8 < int(mask.size()) && (mask[size_t(t / 8)] >> (t % 8) & 1); };
    int best = -1;
    for (int t = 0; t < count; ++t)
      if (may(t) && (best < 0 || logits[size_t(t)] > logits[size_t(best)])) best = t;
    if (mask.empty() || best < 0) continue;
    Sampling how;
    how.temperature = 0;
    CHECK(sample(logits, how, {}, mask, 0, scratch).token == best);
    how.temperature = 1;
    for (uint32_t i = 0; i < 50; ++i) CHECK(may(sample(logits, how, {}, mask, draw(1, 0, i), scratch).token));
    how.top_k = 1;
    CHECK(sample(logits, how, {}, mask, 0.999, scratch).token == best);
  }
}

TEST_CASE("penalties change what is best, and logprobs are of the model's own logits") {
  std::vector<float> logits{2.0f, 1.9f, -1.0f}, scratch;
  Sampling how;
  how.temperature = 0, how.logprobs = 2;
  Seen seen;
  CHECK(sample(logits, how, seen, {}, 0, scratch).token == 0);
  seen.output[0] = 1;
  how.frequency = 0.2f;
  const Sampled s = sample(logits, how, seen, {}, 0, scratch);
  CHECK(s.token == 1);
  const double total = std::exp(2.0) + std::exp(1.9) + std::exp(-1.0);
  CHECK(double(s.logprob) == doctest::Approx(1.9 - std::log(total)).epsilon(1e-5));
  CHECK(s.top.size() == 2);
  CHECK(s.top[0].first == 0);
  how.frequency = 0, how.repetition = 1.5f, seen.prompt[1] = 1;
  CHECK(sample(logits, how, seen, {}, 0, scratch).token == 0);  // both are divided
}
