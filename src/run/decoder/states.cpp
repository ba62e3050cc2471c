// What stands in attention's place in some layers: short convolutions, Mamba's states, Griffin's recurrence. Each page
// holds what is left after its last computed token, so a sequence goes on from any page that attention could go on
// from. Invariant: channels are computed apart and tokens of a run in their order, so a row's values are its sequence's
// own.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/pool.h"
#include "run/decoder/decoder.h"

namespace trine::run {

using host::packed_kernels;

namespace {

constexpr int64_t kChannels = 64;   // of a state, computed by a thread together
constexpr float kInnerEps = 1e-6f;  // of the norms of steps, what goes in and out
constexpr double kSharpness = 8.0;  // of Griffin's decay, a constant of the architecture

float exp_of(double x) { return float(std::exp(x)); }
float softplus(float x) { return x > 20.0f ? x : float(std::log1p(std::exp(double(x)))); }

}  // namespace

// Where each run's state is read from and written to.
std::vector<Decoder::Carry> Decoder::carries(std::span<const TokenRun> runs, int index, KvMemory& kv) const {
  std::vector<Carry> all;
  const int64_t at = layer_at_[size_t(index)] + shape_.state_at(size_t(index));
  const auto of = [&](const TokenRun& run, int32_t position) {
    return reinterpret_cast<float*>(kv.page(run.pages[size_t(position / host::kPageTokens)]).data() + at);
  };
  int64_t row = 0;
  for (const TokenRun& run : runs) {
    Carry k{row, int64_t(run.tokens.size()), run.start, run.start ? of(run, run.start - 1) : nullptr, {}};
    for (int32_t t = 0; t < int32_t(k.count); ++t)
      if (const int32_t position = run.start + t; t + 1 == k.count || (position + 1) % host::kPageTokens == 0)
        k.saves.emplace_back(t, of(run, position));
    row += k.count;
    all.push_back(std::move(k));
  }
  return all;
}

// x by itself and the few tokens before it, each channel alone; in place. at: of these tokens inside a layer's state.
void Decoder::convolve(const std::vector<Carry>& all, const Taps& taps, int64_t at, float* x) const {
  const int64_t channels = taps.channels, before = taps.kernel - 1;
  parallel_for((channels + kChannels - 1) / kChannels, 1, [&](int64_t begin, int64_t end) {
    const int64_t c0 = begin * kChannels, c1 = std::min(channels, end * kChannels), n = c1 - c0;
    std::vector<float> seen(size_t(before * n));
    for (const Carry& k : all) {
      std::fill(seen.begin(), seen.end(), 0.0f);
      for (int64_t i = 0; k.before && i < before; ++i)
        std::copy_n(k.before + at + i * channels + c0, n, &seen[size_t(i * n)]);
      size_t save = 0;
      for (int64_t t = 0; t < k.count; ++t) {
        float* own = x + (k.row + t) * channels + c0;
        for (int64_t c = 0; c < n; ++c) {
          float sum = 0.0f;
          for (int64_t i = 0; i < before; ++i)
            sum += seen[size_t(i * n + c)] * (*taps.w)[size_t(i * channels + c0 + c)];
          sum += own[c] * (*taps.w)[size_t(before * channels + c0 + c)];
          for (int64_t i = 0; i + 1 < before; ++i) seen[size_t(i * n + c)] = seen[size_t((i + 1) * n + c)];
          if (before) seen[size_t((before - 1) * n + c)] = own[c];
          own[c] = taps.b ? sum + (*taps.b)[size_t(c0 + c)] : sum;
        }
        if (save < k.saves.size() && k.saves[save].first == t) {
          float* to = k.saves[save++].second + at;
          for (int64_t i = 0; i < before; ++i) std::copy_n(&seen[size_t(i * n)], n, to + i * channels + c0);
        }
      }
    }
  });
}

// Runs `token(row, state of these channels, c0, c1)` over every run's tokens in order. each: numbers per channel.
template <class Fn>
void Decoder::scan(const std::vector<Carry>& all, int64_t channels, int64_t each, int64_t at, Fn&& token) const {
  parallel_for((channels + kChannels - 1) / kChannels, 1, [&](int64_t begin, int64_t end) {
    const int64_t c0 = begin * kChannels, c1 = std::min(channels, end * kChannels);
    std::vector<float> state(size_t((c1 - c0) * each));
    for (const Carry& k : all) {
      if (k.before)
        std::copy_n(k.before + at + c0 * each, state.size(), state.begin());
      else
        std::fill(state.begin(), state.end(), 0.0f);
      size_t save = 0;
      for (int64_t t = 0; t < k.count; ++t) {
        token(k.row + t, k.start + t, state.data(), c0, c1);
        if (save < k.saves.size() && k.saves[save].first == t)
          std::copy(state.begin(), state.end(), k.saves[save++].second + at + c0 * each);
      }
    }
  });
}

void Decoder::activate_rows(float* x, int64_t size) const {
  parallel_for(int64_t(rows_.size()), 8, [&](int64_t begin, int64_t end) {
    packed_kernels().activate(shape_.activation, x + begin * size, nullptr, (end - begin) * size);
  });
}

void Decoder::convolution(std::span<const TokenRun> runs, int index, const float* x, float* y, KvMemory& kv) {
  const Mix& m = layers_[size_t(index)].mix;
  const size_t size = rows_.size() * size_t(shape_.width);
  for (auto* v : {&in_, &gate_z_, &mixed_in_}) v->resize(size);
  project(runs, {{&m.into, in_.data()}, {&m.z, gate_z_.data()}, {&m.x, mixed_in_.data()}}, x, shape_.width);
  for (size_t i = 0; i < size; ++i) in_[i] *= mixed_in_[i];
  convolve(carries(runs, index, kv), m.conv, 0, in_.data());
  for (size_t i = 0; i < size; ++i) in_[i] *= gate_z_[i];
  project(runs, {{&m.o, y}}, in_.data(), shape_.width);
}

// Mamba: what goes in is convolved, decays and is read out again, beside a gate.
void Decoder::space(std::span<const TokenRun> runs, int index, const float* x, float* y, KvMemory& kv) {
  const Mix& m = layers_[size_t(index)].mix;
  const SpaceShape& s = shape_.space;
  const size_t rows = rows_.size();
  in_.resize(rows * size_t(s.inner)), gate_z_.resize(in_.size());
  project(runs, {{&m.z, gate_z_.data()}, {&m.x, in_.data()}}, x, shape_.width);
  const auto scaled = [](std::vector<float>& v, float by) {
    if (by != 1.0f)
      for (float& e : v) e *= by;
  };
  scaled(gate_z_, s.scales[0]), scaled(in_, s.scales[1]);
  const std::vector<Carry> all = carries(runs, index, kv);
  convolve(all, m.conv, 0, in_.data());
  activate_rows(in_.data(), s.inner);
  if (s.kind == 1) {
    by_channel(runs, m, all);
    activate_rows(gate_z_.data(), s.inner);
    for (size_t i = 0; i < in_.size(); ++i) in_[i] *= gate_z_[i];
  } else {
    const int64_t both = int64_t(s.groups) * s.state;
    mixed_in_.resize(rows * size_t(both)), mixed_out_.resize(mixed_in_.size()), steps_.resize(rows * size_t(s.heads));
    project(runs, {{&m.into, mixed_in_.data()}, {&m.out, mixed_out_.data()}, {&m.steps, steps_.data()}}, x,
            shape_.width);
    scaled(mixed_in_, s.scales[2]), scaled(mixed_out_, s.scales[3]), scaled(steps_, s.scales[4]);
    convolve(all, m.conv_in, int64_t(s.kernel - 1) * s.inner, mixed_in_.data());
    convolve(all, m.conv_out, int64_t(s.kernel - 1) * (s.inner + both), mixed_out_.data());
    activate_rows(mixed_in_.data(), both), activate_rows(mixed_out_.data(), both);
    by_head(m, all);
    gate_norm(m);
  }
  project(runs, {{&m.o, y}}, in_.data(), s.inner);
}

// Kind 1: each channel's numbers decay at rates of their own.
void Decoder::by_channel(std::span<const TokenRun> runs, const Mix& m, const std::vector<Carry>& all) {
  const SpaceShape& s = shape_.space;
  const int64_t rows = int64_t(rows_.size()), given = s.rank + 2 * s.state, inner = s.inner, state = s.state;
  mixed_in_.resize(size_t(rows * given)), mixed_out_.resize(size_t(rows * s.rank)), steps_.resize(size_t(rows * inner));
  project(runs, {{&m.into, mixed_in_.data()}}, in_.data(), inner);
  for (int64_t i = 0; i < rows; ++i) {
    float* own = mixed_in_.data() + i * given;
    for (const auto& [at, size] : {std::pair<int64_t, int64_t>{0, s.rank}, {s.rank, state}, {s.rank + state, state}})
      if (s.inner_norms) packed_kernels().norm(own + at, size, kInnerEps, false, false, nullptr, nullptr, own + at);
    std::copy_n(own, s.rank, mixed_out_.data() + i * s.rank);
  }
  project(runs, {{&m.steps, steps_.data()}}, mixed_out_.data(), s.rank);
  scan(all, inner, state, int64_t(s.kernel - 1) * inner, [&](int64_t row, int64_t, float* h, int64_t c0, int64_t c1) {
    const float *into = mixed_in_.data() + row * given + s.rank, *out = into + state;
    for (int64_t c = c0; c < c1; ++c, h += state) {
      float& x = in_[size_t(row * inner + c)];
      const float step = softplus(steps_[size_t(row * inner + c)]);
      float sum = 0.0f;
      for (int64_t n = 0; n < state; ++n) {
        h[n] = exp_of(double(step) * double(m.rates[size_t(c * state + n)])) * h[n] + step * x * into[n];
        sum += h[n] * out[n];
      }
      x = sum + x * (*m.d)[size_t(c)];
    }
  });
}

// Kind 2: a head's numbers decay at one rate.
void Decoder::by_head(const Mix& m, const std::vector<Carry>& all) {
  const SpaceShape& s = shape_.space;
  const int64_t inner = s.inner, state = s.state, dims = s.inner / s.heads, each = s.heads / s.groups;
  const int64_t at = int64_t(s.kernel - 1) * (inner + 2 * int64_t(s.groups) * state);
  scan(all, inner, state, at, [&](int64_t row, int64_t, float* h, int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c, h += state) {
      const int64_t head = c / dims, group_at = (row * s.groups + head / each) * state;
      const float *into = mixed_in_.data() + group_at, *out = mixed_out_.data() + group_at;
      float& x = in_[size_t(row * inner + c)];
      const float raw = softplus(steps_[size_t(row * s.heads + head)] + (*m.step_bias)[size_t(head)]);
      const float step = std::clamp(raw, s.least, s.most);
      const float decay = exp_of(double(step) * double(m.rates[size_t(head)]));
      float sum = 0.0f;
      for (int64_t n = 0; n < state; ++n) {
        h[n] = decay * h[n] + step * x * into[n];
        sum += h[n] * out[n];
      }
      x = sum + x * (*m.d)[size_t(head)];
    }
  });
}

// What comes out of the state by its gate, normed where the family does that.
void Decoder::gate_norm(const Mix& m) {
  const SpaceShape& s = shape_.space;
  const int64_t inner = s.inner, part = inner / s.norm_groups;
  packed_kernels().activate(host::Activation::silu, gate_z_.data(), nullptr, int64_t(gate_z_.size()));
  const auto gated = [&] {
    for (size_t i = 0; i < in_.size(); ++i) in_[i] *= gate_z_[i];
  };
  if (!s.normed || !s.gate_last) gated();
  if (s.normed)
    for (int64_t at = 0; at < int64_t(in_.size()); at += part)
      packed_kernels().norm(in_.data() + at, part, shape_.eps, false, false, m.norm.scale->data() + at % inner, nullptr,
                            in_.data() + at);
  if (s.normed && s.gate_last) gated();
}

// Attention, and a state beside it.
void Decoder::beside(std::span<const TokenRun> runs, int index, const float* x, float* y, KvMemory& kv) {
  const auto& [into, out, of_state] = shape_.attention_scales;
  const size_t size = rows_.size() * size_t(shape_.width);
  scaled_.assign(x, x + size);
  for (float& v : scaled_) v *= into;
  attention(runs, index, scaled_.data(), y, kv);
  space(runs, index, x, scaled_.data(), kv);
  for (size_t i = 0; i < size; ++i) y[i] = y[i] * out + scaled_[i] * of_state;
}

// Griffin: a number per channel that decays and is added to by gates that see the token.
void Decoder::recurrence(std::span<const TokenRun> runs, int index, const float* x, float* y, KvMemory& kv) {
  const Mix& m = layers_[size_t(index)].mix;
  const int64_t rows = int64_t(rows_.size()), channels = shape_.recurrent, heads = int64_t(m.gates_in.size());
  const int64_t each = channels / heads;
  for (auto* v : {&in_, &gate_z_, &mixed_in_, &mixed_out_}) v->resize(size_t(rows * channels));
  project(runs, {{&m.z, gate_z_.data()}, {&m.x, in_.data()}}, x, shape_.width);
  activate_rows(gate_z_.data(), channels);
  const std::vector<Carry> all = carries(runs, index, kv);
  convolve(all, m.conv, 0, in_.data());
  host::MultiplyScratch scratch;
  for (int64_t h = 0; h < heads; ++h)
    for (const auto& [gate, to] : {std::pair{&m.gates_in, &mixed_in_}, {&m.gates_decay, &mixed_out_}}) {
      const Dense& d = (*gate)[size_t(h)];
      const host::Times times{d.w, to->data() + h * each, channels};
      host::multiply({&times, 1}, in_.data() + h * each, rows, each, channels, scratch);
      for (int64_t i = 0; i < rows; ++i)
        packed_kernels().add(to->data() + i * channels + h * each, d.b->data(), 1.0f, each);
    }
  scan(all, channels, 1, int64_t(shape_.kernel - 1) * channels,
       [&](int64_t row, int64_t position, float* h, int64_t c0, int64_t c1) {
         for (int64_t c = c0; c < c1; ++c, ++h) {
           const size_t i = size_t(row * channels + c);
           const double open = 1.0 / (1.0 + std::exp(-double(mixed_in_[i]))),
                        decays = 1.0 / (1.0 + std::exp(-double(mixed_out_[i])));
           const double decay = -kSharpness * decays * double(m.rates[size_t(c)]);
           const float added = float(double(in_[i]) * open * (position ? std::sqrt(1.0 - std::exp(2.0 * decay)) : 1.0));
           *h = added + (position ? exp_of(decay) * *h : 0.0f);
           in_[i] = *h * gate_z_[i];
         }
       });
  project(runs, {{&m.o, y}}, in_.data(), channels);
}

}  // namespace trine::run
