// From logits to a token: bias, penalties, mask, temperature, min-p, top-k, top-p, and a draw that depends on the
// request's seed, its choice and the position alone. Not batched state: what a row gives is a function of its
// arguments.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trine::serve {

struct Sampling {
  float temperature = 1, top_p = 1, min_p = 0, presence = 0, frequency = 0, repetition = 1;
  int32_t top_k = 0;  // 0 or less: all
  std::map<int32_t, float> bias;
  uint64_t seed = 0;
  int32_t logprobs = -1;  // how many of the best to name; -1: none, 0: the token's own
};

// How often each token was seen: in the output, and whether in the prompt.
struct Seen {
  std::unordered_map<int32_t, int32_t> output;
  std::unordered_map<int32_t, int32_t> prompt;
};

struct Sampled {
  int32_t token = 0;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;
};

// A number from 0 up to 1 of a seed, a choice and a position (Philox 4x32-10).
double draw(uint64_t seed, uint32_t choice, uint32_t position);

// mask: a bit for each token that may be taken, the lowest first; empty: all may. `scratch` is reused between calls.
Sampled sample(std::span<const float> logits, const Sampling& how, const Seen& seen, std::span<const uint8_t> mask,
               double at, std::vector<float>& scratch);

float log_sum_exp(std::span<const float> logits);
Sampled logprob_of(std::span<const float> logits, int32_t token, int32_t top);

}  // namespace trine::serve
