// Dictionaries into what the engine takes. A wrong type is Python's own error; a wrong value is told by the engine's
// checks.
#include "api/python/serve_read.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "api/python/raise.h"
#include "base/text.h"

namespace nb = nanobind;

namespace trine::api {

namespace {

using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>;

std::vector<float> floats(nb::handle h) {
  const auto a = nb::cast<Floats>(h);
  return {a.data(), a.data() + a.size()};
}

template <class E>
E named(const std::string& name, std::initializer_list<std::pair<const char*, E>> rows, const char* what) {
  for (const auto& [key, value] : rows)
    if (name == key) return value;
  throw nb::value_error(cat(what, " \"", name, "\" is not served").c_str());
}

host::PackedMatrix matrix(const std::string& name, const nb::tuple& t) {
  const auto bytes = nb::cast<Bytes>(t[3]);
  std::vector<float> scales;
  if (!nb::object(t[4]).is_none()) scales = floats(t[4]);
  std::vector<int32_t> order;
  if (!nb::object(t[5]).is_none()) {
    const auto o = nb::cast<Numbers>(t[5]);
    order.assign(o.data(), o.data() + o.size());
  }
  const auto format = or_raise(host::packed_named(nb::cast<std::string>(t[0])));
  const int64_t outputs = nb::cast<int64_t>(t[1]), inputs = nb::cast<int64_t>(t[2]);
  Result<host::PackedMatrix> made = [&] {
    const nb::gil_scoped_release unlocked;
    return host::PackedMatrix::make(format, outputs, inputs,
                                    {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, scales, order);
  }();
  if (!made) throw nb::value_error(cat("weight ", name, ": ", made.error().text()).c_str());
  return *std::move(made);
}

template <size_t N>
void some(const nb::dict& d, const char* name, std::array<float, N>& to) {
  if (!d.contains(name)) return;
  const auto given = nb::cast<std::vector<float>>(d[name]);
  if (given.size() != N) throw nb::value_error(cat(name, " has ", given.size(), " numbers; expected ", N).c_str());
  std::copy(given.begin(), given.end(), to.begin());
}

run::SpaceShape space(const nb::dict& d) {
  run::SpaceShape s;
  take(d, "kind", s.kind), take(d, "inner", s.inner), take(d, "state", s.state), take(d, "kernel", s.kernel);
  take(d, "heads", s.heads), take(d, "groups", s.groups), take(d, "rank", s.rank);
  take(d, "norm_groups", s.norm_groups), take(d, "normed", s.normed), take(d, "gate_last", s.gate_last);
  take(d, "inner_norms", s.inner_norms), take(d, "least", s.least), take(d, "most", s.most);
  some(d, "scales", s.scales);
  return s;
}

run::RouterShape router(const nb::dict& d) {
  run::RouterShape r;
  using K = run::RouterShape::Kind;
  r.kind = named<K>(nb::cast<std::string>(d["kind"]),
                    {{"softmax", K::softmax}, {"sigmoid", K::sigmoid}, {"mixer", K::mixer}}, "a router");
  take(d, "chosen", r.chosen), take(d, "normed", r.normed), take(d, "scale", r.scale), take(d, "groups", r.groups);
  take(d, "best", r.best), take(d, "of_group", r.of_group), take(d, "jitter", r.jitter);
  return r;
}

}  // namespace

run::DecoderShape decoder_shape(const nb::dict& d) {
  run::DecoderShape s;
  take(d, "width", s.width), take(d, "heads", s.heads), take(d, "kv_heads", s.kv_heads),
      take(d, "head_dim", s.head_dim);
  take(d, "embed", s.embed), take(d, "vocab", s.vocab), take(d, "context", s.context), take(d, "norms", s.norms);
  take(d, "centred", s.centred), take(d, "plus_one", s.plus_one), take(d, "eps", s.eps), take(d, "qk_norm", s.qk_norm);
  take(d, "gated", s.gated), take(d, "embed_scale", s.embed_scale), take(d, "head_scale", s.head_scale);
  take(d, "residual", s.residual), take(d, "logit_cap", s.logit_cap), take(d, "score_cap", s.score_cap);
  take(d, "score_scale", s.score_scale), take(d, "position_offset", s.position_offset);
  take(d, "clip", s.clip), take(d, "gate_limit", s.gate_limit), take(d, "whole_activations", s.whole_activations);
  using enum run::Block;
  s.block = named<run::Block>(
      nb::cast<std::string>(d["block"]),
      {{"pre", pre}, {"parallel", parallel}, {"post", post}, {"normed", normed}, {"sandwich", sandwich}}, "a block");
  using A = host::Activation;
  s.activation = named<A>(nb::cast<std::string>(d["activation"]),
                          {{"silu", A::silu},
                           {"gelu_new", A::gelu_tanh},
                           {"gelu", A::gelu},
                           {"relu", A::relu},
                           {"relu2", A::relu2},
                           {"quick_gelu", A::quick_gelu},
                           {"tanh", A::tanh}},
                          "an activation");
  for (const nb::handle h : nb::cast<nb::list>(d["layers"])) {
    const auto l = nb::cast<std::vector<int32_t>>(h);
    s.layers.push_back({l.at(0), l.at(1), l.at(2), l.at(3)});
  }
  using M = run::Mixer;
  for (size_t i = 0; i < s.layers.size() && d.contains("mixers"); ++i)
    s.layers[i].mixer = named<M>(nb::cast<std::string>(nb::cast<nb::list>(d["mixers"])[i]),
                                 {{"attention", M::attention},
                                  {"latent", M::latent},
                                  {"convolution", M::convolution},
                                  {"state", M::state},
                                  {"recurrence", M::recurrence},
                                  {"both", M::both}},
                                 "a mixer");
  for (const nb::handle h : nb::cast<nb::list>(d["ropes"])) {
    const auto t = nb::cast<nb::tuple>(h);
    s.ropes.push_back({nb::cast<int32_t>(t[0]), floats(t[1]), floats(t[2])});
  }
  if (d.contains("biases") && !nb::object(d["biases"]).is_none()) s.biases = floats(d["biases"]);
  if (d.contains("router") && !nb::object(d["router"]).is_none()) s.router = router(nb::cast<nb::dict>(d["router"]));
  if (d.contains("latent") && !nb::object(d["latent"]).is_none()) {
    const auto l = nb::cast<nb::dict>(d["latent"]);
    take(l, "rank", s.latent.rank), take(l, "rotated", s.latent.rotated), take(l, "still", s.latent.still);
    take(l, "values", s.latent.values), take(l, "q_rank", s.latent.q_rank);
  }
  if (d.contains("space") && !nb::object(d["space"]).is_none()) s.space = space(nb::cast<nb::dict>(d["space"]));
  take(d, "kernel", s.kernel), take(d, "recurrent", s.recurrent);
  some(d, "attention_scales", s.attention_scales), some(d, "mlp_scales", s.mlp_scales);
  return s;
}

run::DecoderWeights decoder_weights(const nb::dict& matrices, const nb::dict& vectors) {
  run::DecoderWeights w;
  for (const auto& [name, value] : matrices) {
    const auto key = nb::cast<std::string>(name);
    w.matrices.emplace(key, matrix(key, nb::cast<nb::tuple>(value)));
  }
  for (const auto& [name, value] : vectors) w.vectors.emplace(nb::cast<std::string>(name), floats(value));
  return w;
}

run::Adapter adapter(const nb::dict& tensors, float scale) {
  run::Adapter out;
  out.scale = scale;
  std::set<std::string> names;
  for (const auto& [name, value] : tensors) {
    auto key = nb::cast<std::string>(name);
    if (key.size() < 3 || (!key.ends_with(".a") && !key.ends_with(".b")))
      throw nb::value_error(
          cat("an adapter's tensor ", key, "; expected names as layers.0.q.a and layers.0.q.b").c_str());
    names.insert(key.substr(0, key.size() - 2));
  }
  std::vector<std::pair<Floats, host::PackedMatrix*>> each;
  for (const std::string& name : names)
    for (const auto& [suffix, to] : {std::pair{".a", &run::LowRank::a}, {".b", &run::LowRank::b}}) {
      const std::string key = name + suffix;
      if (!tensors.contains(key.c_str())) throw nb::value_error(cat("an adapter without ", key).c_str());
      auto t = nb::cast<Floats>(tensors[key.c_str()]);
      if (t.ndim() != 2) throw nb::value_error(cat("an adapter's ", key, " has ", t.ndim(), " dims").c_str());
      each.emplace_back(std::move(t), &(out.layers[name].*to));
    }
  const auto packed = [&]() -> Result<void> {
    const nb::gil_scoped_release unlocked;  // a large one takes a while, and the server has others to answer
    for (const auto& [t, to] : each)
      *to = TRY(host::PackedMatrix::make(host::Packed::f32, int64_t(t.shape(0)), int64_t(t.shape(1)),
                                         {reinterpret_cast<const std::byte*>(t.data()), t.size() * 4}));
    return {};
  };
  or_raise(packed());
  return out;
}

serve::CostTable cost_table(nb::handle given) {
  serve::CostTable t;
  if (given.is_none()) return t;
  const auto d = nb::cast<nb::dict>(given);
  for (const auto& [name, to] : {std::pair{"prompt", &t.prompt}, {"decode", &t.decode}}) {
    const auto g = nb::cast<nb::dict>(d[name]);
    take(g, "sizes", to->sizes), take(g, "contexts", to->contexts), take(g, "seconds", to->seconds);
  }
  take(d, "low", t.low), take(d, "high", t.high), take(d, "launch", t.launch), take(d, "watts", t.watts);
  take(d, "idle_watts", t.idle_watts), take(d, "dollars_per_hour", t.dollars_per_hour);
  take(d, "transfer_seconds_per_token", t.transfer_seconds_per_token);
  or_raise(t.check());
  return t;
}

serve::SchedulerOptions scheduler_options(const nb::dict& d) {
  serve::SchedulerOptions s;
  take(d, "pages", s.pages), take(d, "running_most", s.running_most), take(d, "chunk", s.chunk),
      take(d, "mixed_chunk", s.mixed_chunk);
  take(d, "context", s.context), take(d, "prefix_cache", s.prefix_cache), take(d, "mixed", s.mixed);
  take(d, "part_pages", s.part_pages);
  return s;
}

std::vector<int32_t> token_list(nb::handle tokens) {
  if (!nb::isinstance<nb::bytes>(tokens)) return nb::cast<std::vector<int32_t>>(tokens);
  const auto b = nb::cast<nb::bytes>(tokens);
  if (b.size() % 4) throw nb::value_error("tokens as bytes are int32 each");
  std::vector<int32_t> out(b.size() / 4);
  std::memcpy(out.data(), b.c_str(), b.size());
  return out;
}

serve::Request request(const nb::dict& d) {
  serve::Request r;
  r.prompt = token_list(d["prompt"]);
  serve::Sampling& s = r.sampling;
  take(d, "max_tokens", r.max_tokens), take(d, "min_tokens", r.min_tokens), take(d, "n", r.n),
      take(d, "best_of", r.best_of);
  take(d, "temperature", s.temperature), take(d, "top_k", s.top_k), take(d, "top_p", s.top_p),
      take(d, "min_p", s.min_p);
  take(d, "presence_penalty", s.presence), take(d, "frequency_penalty", s.frequency),
      take(d, "repetition_penalty", s.repetition);
  int64_t seed = 0;
  take(d, "seed", seed), s.seed = uint64_t(seed);
  take(d, "logprobs", s.logprobs), take(d, "prompt_logprobs", r.prompt_logprobs);
  take(d, "stop_tokens", r.stop_tokens), take(d, "ignore_eos", r.ignore_eos), take(d, "priority", r.priority);
  take(d, "deadline_s", r.deadline_s), take(d, "key", r.key), take(d, "adapter", r.adapter),
      take(d, "session", r.session);
  take(d, "constrained", r.constrained), take(d, "embed", r.embed);
  if (d.contains("logit_bias") && !nb::object(d["logit_bias"]).is_none())
    for (const auto& [token, by] : nb::cast<nb::dict>(d["logit_bias"]))
      s.bias[nb::cast<int32_t>(token)] = nb::cast<float>(by);
  return r;
}

}  // namespace trine::api
