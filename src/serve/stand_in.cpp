// Steps without weights: they last what the table of times says, on the host's clock times `pace`, and their tokens
// are stand-ins. Scheduling, pages, times and prices are those of steps that are computed.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "serve/active.h"

namespace trine::serve {

namespace {

constexpr int32_t kFew = 8;  // tokens of a mask that are drawn from

bool allowed(std::span<const uint8_t> mask, int32_t token) {
  return size_t(token / 8) < mask.size() && (mask[size_t(token / 8)] >> (token % 8) & 1);
}

// One of the first few that a mask allows: in most vocabularies single characters, so that documents come to an end.
int32_t among(std::span<const uint8_t> mask, double at) {
  int32_t found[kFew], count = 0;
  for (size_t byte = 0; byte < mask.size() && count < kFew; ++byte)
    for (uint8_t bits = mask[byte]; bits && count < kFew; bits &= uint8_t(bits - 1))
      found[count++] = int32_t(byte * 8) + std::countr_zero(bits);
  return count ? found[std::min(count - 1, int32_t(at * count))] : 0;
}

}  // namespace

// The chip's clock at a moment of the host's.
double Engine::chip_at(double host) const {
  return options_.pace > 0 ? std::max(0.0, (host - started_) * options_.pace) : chip_;
}

void Engine::pace(double seconds) {
  using Clock = std::chrono::steady_clock;
  chip_ += seconds;
  const auto since = std::chrono::duration<double>(started_ + chip_ / options_.pace);
  const Clock::time_point until(std::chrono::duration_cast<Clock::duration>(since));
  std::unique_lock lock(mutex_);
  while (!stop_ && Clock::now() < until) {
    asked_.wait_until(lock, until, [&] { return stop_ || !looks_.empty(); });
    look();
  }
}

Sampled Engine::stand_in(const Choice& c, int32_t position) const {
  const Request& r = c.active->request;
  const int32_t vocab = decoder_.shape().vocab, written = position - c.sequence.prompt;
  const double at = draw(r.sampling.seed, uint32_t(c.sequence.choice), uint32_t(position));
  const auto& words = options_.stand_in;
  Sampled s;
  s.token = words.empty() ? 0 : words[size_t(written) % words.size()];
  const bool may_end = !r.ignore_eos && !options_.eos.empty() && written >= std::max(1, r.min_tokens);
  if (!c.mask.empty()) {
    const auto end =
        std::find_if(options_.eos.begin(), options_.eos.end(), [&](int32_t t) { return allowed(c.mask, t); });
    s.token = may_end && end != options_.eos.end() && at < 0.5 ? *end : std::min(among(c.mask, at), vocab - 1);
  } else if (may_end && at * options_.answer_tokens < 1) {
    s.token = options_.eos[0];
  }
  if (r.sampling.logprobs >= 0) {  // of a model that knows nothing
    s.logprob = -std::log(float(vocab));
    for (int32_t i = 0; i < std::min(r.sampling.logprobs, vocab); ++i) s.top.emplace_back(i ? i : s.token, s.logprob);
  }
  return s;
}

}  // namespace trine::serve
