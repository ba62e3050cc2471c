// Finds the tensors of what mixes tokens: attention, latent attention, convolutions, states; the steps are in step.cpp,
// latent.cpp and states.cpp.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "run/decoder/decoder.h"

namespace trine::run {

Result<void> Decoder::attention_mix(Layer& l, const std::string& at) const {
  const DecoderShape& s = shape_;
  const int64_t queries = int64_t(s.heads) * s.head_dim, keys = int64_t(s.kv_heads) * s.head_dim;
  l.q = TRY(dense(at + "q", queries, s.width, true)), l.k = TRY(dense(at + "k", keys, s.width, true));
  l.v = TRY(dense(at + "v", keys, s.width, true)), l.o = TRY(dense(at + "o", s.width, queries, true));
  const bool whole = s.qk_norm == "whole" || s.qk_norm == "own";
  l.q_norm = TRY(norm(at + "q_norm", whole ? queries : s.head_dim, !s.qk_norm.empty()));
  l.k_norm = TRY(norm(at + "k_norm", whole ? keys : s.head_dim, !s.qk_norm.empty()));
  l.sinks = TRY(vector(at + "sinks", s.heads));
  return {};
}

Result<void> Decoder::latent_mix(Layer& l, const std::string& at) const {
  const DecoderShape& s = shape_;
  const LatentShape& m = s.latent;
  l.kv_down = TRY(dense(at + "kv_down", m.rank + m.rotated, s.width, true));
  l.kv_norm = TRY(norm(at + "kv_norm", m.rank, true));
  if (m.q_rank) {
    l.q_down = TRY(dense(at + "q_down", m.q_rank, s.width, true));
    l.q_norm = TRY(norm(at + "q_norm", m.q_rank, true));
  }
  l.q = TRY(dense(at + "q", int64_t(s.heads) * s.head_dim, m.q_rank ? m.q_rank : s.width, true));
  l.o = TRY(dense(at + "o", s.width, int64_t(s.heads) * m.values, true));
  for (int h = 0; h < s.heads; ++h) {
    l.k_up.push_back(TRY(dense(cat(at, "k_up.", h), m.rank, m.still, true)));
    l.v_up.push_back(TRY(dense(cat(at, "v_up.", h), m.values, m.rank, true)));
    if (host::row(l.k_up.back().w->format()).bits || host::row(l.v_up.back().w->format()).bits)
      return fail(Code::unsupported, cat(at, "k_up and v_up in few bits; floats are served"));
  }
  return {};
}

Result<Decoder::Taps> Decoder::taps(const std::string& name, int64_t kernel, int64_t channels) const {
  Taps t{TRY(vector(name + ".taps", kernel * channels)), TRY(vector(name + ".b", channels)), kernel, channels};
  if (!t.w) return fail(Code::not_found, cat("no weight ", name, ".taps"));
  return t;
}

Result<void> Decoder::convolution_mix(Mix& m, const std::string& at) const {
  const int64_t width = shape_.width;
  m.into = TRY(dense(at + "before", width, width, true)), m.z = TRY(dense(at + "after", width, width, true));
  m.x = TRY(dense(at + "x", width, width, true)), m.o = TRY(dense(at + "o", width, width, true));
  m.conv = TRY(taps(at + "conv", shape_.kernel, width));
  return {};
}

Result<void> Decoder::state_mix(Mix& m, const std::string& at) const {
  const SpaceShape& s = shape_.space;
  const int64_t width = shape_.width, inner = s.inner, grouped = int64_t(s.groups) * s.state;
  m.z = TRY(dense(at + "z", inner, width, true)), m.x = TRY(dense(at + "x", inner, width, true));
  m.o = TRY(dense(at + "o", width, inner, true)), m.conv = TRY(taps(at + "conv", s.kernel, inner));
  const int64_t rates = s.kind == 1 ? inner * s.state : s.heads;
  const std::vector<float>* logs = TRY(vector(at + "rates", rates));
  m.d = TRY(vector(at + "d", s.kind == 1 ? inner : s.heads));
  if (!logs || !m.d) return fail(Code::not_found, cat("no ", at, "rates or ", at, "d"));
  for (const float log : *logs) m.rates.push_back(-float(std::exp(double(log))));
  if (s.kind == 1) {
    m.into = TRY(dense(at + "inner", s.rank + 2 * s.state, inner, true));
    m.steps = TRY(dense(at + "steps", inner, s.rank, true));
    return {};
  }
  m.into = TRY(dense(at + "into", grouped, width, true)), m.out = TRY(dense(at + "out", grouped, width, true));
  m.steps = TRY(dense(at + "steps", s.heads, width, true));
  m.conv_in = TRY(taps(at + "conv_into", s.kernel, grouped)),
  m.conv_out = TRY(taps(at + "conv_out", s.kernel, grouped));
  m.step_bias = TRY(vector(at + "step_bias", s.heads));
  if (!m.step_bias) return fail(Code::not_found, cat("no ", at, "step_bias"));
  m.norm = TRY(norm(at + "norm", inner, s.normed));
  return {};
}

Result<void> Decoder::recurrence_mix(Mix& m, const std::string& at) const {
  const int64_t width = shape_.width, channels = shape_.recurrent, each = channels / shape_.heads;
  m.z = TRY(dense(at + "y", channels, width, true)), m.x = TRY(dense(at + "x", channels, width, true));
  m.o = TRY(dense(at + "o", width, channels, true)), m.conv = TRY(taps(at + "conv", shape_.kernel, channels));
  const std::vector<float>* logs = TRY(vector(at + "rates", channels));
  if (!logs) return fail(Code::not_found, cat("no ", at, "rates"));
  for (const float log : *logs) m.rates.push_back(float(std::log1p(std::exp(double(log)))));
  for (int h = 0; h < shape_.heads; ++h)
    for (const auto& [name, to] : {std::pair{"into.", &m.gates_in}, {"decay.", &m.gates_decay}}) {
      to->push_back(TRY(dense(cat(at, name, h), each, each, true)));
      if (!to->back().b || host::row(to->back().w->format()).bits)
        return fail(Code::invalid, cat("a gate ", at, name, h, " without a bias, or in few bits"));
    }
  return {};
}

Result<void> Decoder::mix(Layer& l, Mixer mixer, const std::string& at) const {
  switch (mixer) {
    case Mixer::latent:
      return latent_mix(l, at);
    case Mixer::convolution:
      return convolution_mix(l.mix, at);
    case Mixer::state:
      return state_mix(l.mix, at);
    case Mixer::recurrence:
      return recurrence_mix(l.mix, at);
    case Mixer::both:
      TRY(attention_mix(l, at));
      return state_mix(l.mix, at + "state.");
    case Mixer::attention:
      break;
  }
  return attention_mix(l, at);
}

}  // namespace trine::run
