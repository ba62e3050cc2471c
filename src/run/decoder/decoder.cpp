// Finds a decoder's tensors by their names and checks their shapes; the step is in step.cpp.
#include "run/decoder/decoder.h"

#include <algorithm>

#include "base/text.h"

namespace trine::run {

namespace {

Result<void> check_router(const DecoderShape& s, const LayerShape& l) {
  const RouterShape& r = s.router;
  if (r.chosen <= 0 || r.chosen > l.experts || l.experts > (1 << 16))
    return fail(Code::invalid, cat(r.chosen, " of ", l.experts, " experts for a token"));
  if (r.groups <= 1) return {};
  if (l.experts % r.groups || r.best <= 0 || r.best > r.groups || r.of_group <= 0 ||
      r.of_group > l.experts / r.groups || r.best * (l.experts / r.groups) < r.chosen)
    return fail(Code::invalid,
                cat(l.experts, " experts in ", r.groups, " groups of which ", r.best, " are chosen from"));
  return {};
}

Result<void> check_latent(const DecoderShape& s) {
  const LatentShape& l = s.latent;
  for (const auto& [name, value] :
       {std::pair{"rank", l.rank}, {"rotated", l.rotated}, {"still", l.still}, {"values", l.values}})
    if (value <= 0 || value > (1 << 16))
      return fail(Code::invalid, cat("latent attention whose ", name, " is ", value));
  if (l.rank % 16 || l.rotated % 16)
    return fail(Code::unsupported, cat("latent attention of rank ", l.rank, " and ", l.rotated,
                                       " turned dims; multiples of 16 are served"));
  if (l.q_rank < 0 || s.head_dim != l.still + l.rotated || !s.biases.empty())
    return fail(Code::invalid, cat("latent attention with heads of ", s.head_dim, " dims"));
  return {};
}

Result<void> check_space(const DecoderShape& s) {
  const SpaceShape& p = s.space;
  for (const auto& [name, value] : {std::pair{"inner", p.inner},
                                    {"state", p.state},
                                    {"kernel", p.kernel},
                                    {"heads", p.heads},
                                    {"groups", p.groups},
                                    {"norm_groups", p.norm_groups}})
    if (value <= 0 || value > (1 << 20)) return fail(Code::invalid, cat("a state space whose ", name, " is ", value));
  if ((p.kind != 1 && p.kind != 2) || (p.kind == 1 && p.rank <= 0))
    return fail(Code::invalid, cat("a state space of kind ", p.kind, " and rank ", p.rank));
  if (p.inner % p.heads || p.heads % p.groups || p.inner % p.norm_groups || p.kernel > 64 || !(p.least <= p.most))
    return fail(Code::invalid,
                cat("a state space of ", p.inner, " channels, ", p.heads, " heads and ", p.groups, " groups"));
  return {};
}

Result<void> check_mixer(const DecoderShape& s, Mixer mixer) {
  if ((mixer == Mixer::latent) != (s.latent.rank != 0)) return fail(Code::invalid, "some layers with latent attention");
  if (mixer == Mixer::state || mixer == Mixer::both) TRY(check_space(s));
  if (mixer == Mixer::convolution || mixer == Mixer::recurrence)
    if (s.kernel <= 0 || s.kernel > 64 || (mixer == Mixer::recurrence && (s.recurrent <= 0 || s.recurrent % s.heads)))
      return fail(Code::invalid, cat("a convolution over ", s.kernel, " tokens and ", s.recurrent, " channels"));
  return {};
}

}  // namespace

bool DecoderShape::keeps_state() const {
  return std::any_of(layers.begin(), layers.end(), [](const LayerShape& l) { return l.keeps_state(); });
}

int64_t DecoderShape::state_floats(size_t layer) const {
  const int64_t grouped = int64_t(space.groups) * space.state, before = space.kernel - 1;
  switch (layers[layer].mixer) {
    case Mixer::convolution:
      return int64_t(kernel - 1) * width;
    case Mixer::recurrence:
      return int64_t(kernel) * recurrent;
    case Mixer::state:
    case Mixer::both:
      return before * (space.inner + (space.kind == 2 ? 2 * grouped : 0)) + int64_t(space.inner) * space.state;
    default:
      return 0;
  }
}

int64_t DecoderShape::page_bytes() const {
  int64_t sum = 0;
  for (size_t i = 0; i < layers.size(); ++i) sum += layer_bytes(i);
  return sum;
}

Result<void> DecoderShape::check() const {
  for (const auto& [name, value] : {std::pair{"width", width},
                                    {"heads", heads},
                                    {"kv_heads", kv_heads},
                                    {"head_dim", head_dim},
                                    {"vocab", vocab},
                                    {"context", context}})
    if (value <= 0 || value > (1 << 24)) return fail(Code::invalid, cat("a decoder whose ", name, " is ", value));
  if (heads % kv_heads) return fail(Code::invalid, cat(heads, " heads over ", kv_heads, " heads of keys"));
  if (latent.rank) TRY(check_latent(*this));
  const bool attends = std::any_of(layers.begin(), layers.end(), [](const LayerShape& l) { return l.attends(); });
  if (attends && !latent.rank && head_dim % 16)
    return fail(Code::unsupported, cat("heads of ", head_dim, " dims; a multiple of 16 is served"));
  if (layers.empty() || layers.size() > 4096) return fail(Code::invalid, cat(layers.size(), " layers"));
  for (const LayerShape& l : layers) {
    if (l.rope >= int32_t(ropes.size()) || l.window < 0)
      return fail(Code::invalid, "a layer names positions that are not there");
    if (l.ffn < 0 || l.ffn > (1 << 24)) return fail(Code::invalid, cat("a layer whose ffn is ", l.ffn));
    TRY(check_mixer(*this, l.mixer));
    if (l.experts) TRY(check_router(*this, l));
  }
  const int32_t rotary = latent.rank ? latent.rotated : head_dim;
  for (const RopeTable& r : ropes)
    if (r.pairs <= 0 || 2 * r.pairs > rotary || r.cos.size() != size_t(context) * size_t(r.pairs) ||
        r.sin.size() != r.cos.size())
      return fail(Code::invalid, cat("a table of positions with ", r.pairs, " pairs and ", r.cos.size(), " angles"));
  if (!biases.empty() && biases.size() != size_t(heads) * size_t(context))
    return fail(Code::invalid, cat(biases.size(), " biases of ", heads, " heads and ", context, " positions"));
  for (const char* known : {"", "head", "whole", "own", "after"})
    if (qk_norm == known) return {};
  return fail(Code::unsupported, cat("norms of queries and keys of kind \"", qk_norm, "\""));
}

Result<Decoder::Dense> Decoder::dense(const std::string& name, int64_t outputs, int64_t inputs, bool needed) const {
  const auto found = weights_.matrices.find(name);
  if (found == weights_.matrices.end()) {
    if (needed) return fail(Code::not_found, cat("no weight ", name));
    return Dense{};
  }
  const host::PackedMatrix& w = found->second;
  if (w.outputs() != outputs || w.inputs() != inputs)
    return fail(Code::invalid,
                cat("weight ", name, " is ", w.outputs(), " × ", w.inputs(), "; expected ", outputs, " × ", inputs));
  if (w.inputs() % host::kGroup && host::row(w.format()).bits)
    return fail(Code::unsupported, cat("weight ", name, " has ", w.inputs(), " inputs, no multiple of ", host::kGroup));
  Dense d{&w, nullptr, name};
  if (const auto bias = weights_.vectors.find(name + ".b"); bias != weights_.vectors.end()) {
    if (int64_t(bias->second.size()) != outputs)
      return fail(Code::invalid, cat("bias of ", name, " has ", bias->second.size(), " values"));
    d.b = &bias->second;
  }
  return d;
}

Result<Decoder::Norm> Decoder::norm(const std::string& name, int64_t width, bool needed) const {
  Norm n;
  for (const auto& [suffix, to] : {std::pair{".scale", &n.scale}, {".bias", &n.bias}}) {
    const auto found = weights_.vectors.find(name + suffix);
    if (found == weights_.vectors.end()) continue;
    if (int64_t(found->second.size()) != width)
      return fail(Code::invalid, cat(name, suffix, " has ", found->second.size(), " values; expected ", width));
    *to = &found->second;
  }
  if (needed && !n.scale) return fail(Code::not_found, cat("no norm ", name));
  return n;
}

Result<const std::vector<float>*> Decoder::vector(const std::string& name, int64_t size) const {
  const auto found = weights_.vectors.find(name);
  if (found == weights_.vectors.end()) return nullptr;
  if (int64_t(found->second.size()) != size)
    return fail(Code::invalid, cat(name, " has ", found->second.size(), " values; expected ", size));
  return &found->second;
}

Result<Decoder::Mlp> Decoder::mlp(const std::string& at, const std::string& end, int64_t ffn) const {
  Mlp m;
  m.up = TRY(dense(at + "up" + end, ffn, shape_.width, true));
  m.down = TRY(dense(at + "down" + end, shape_.width, ffn, true));
  if (shape_.gated) m.gate = TRY(dense(at + "gate" + end, ffn, shape_.width, true));
  m.bend_up = TRY(vector(at + "bend_up", 1)), m.bend_down = TRY(vector(at + "bend_down", 1));
  if (!m.bend_up != !m.bend_down)
    return fail(Code::invalid, cat(at, "bend_up and bend_down: one is there, both or none are needed"));
  return m;
}

Result<void> Decoder::feed(Layer& l, const LayerShape& shape, const std::string& at) const {
  if (!shape.ffn) return {};
  if (!shape.experts) {
    l.mlp = TRY(mlp(at, "", shape.ffn));
    return {};
  }
  l.router = TRY(dense(at + "router", shape.experts, shape_.width, true));
  l.correction = TRY(vector(at + "router_correction", shape.experts));
  for (int e = 0; e < shape.experts; ++e) l.experts.push_back(TRY(mlp(at, cat(".", e), shape.ffn)));
  if (const auto found = weights_.matrices.find(at + "shared.up"); found != weights_.matrices.end())
    l.shared = TRY(mlp(at + "shared.", "", found->second.outputs()));
  l.shared_gate = TRY(dense(at + "shared_gate", 1, shape_.width, false));
  return {};
}

Result<Decoder::Layer> Decoder::layer(int i) const {
  const DecoderShape& s = shape_;
  const std::string at = cat("layers.", i, ".");
  Layer l;
  TRY(mix(l, s.layers[size_t(i)].mixer, at));
  TRY(feed(l, s.layers[size_t(i)], at));
  l.norm1 = TRY(norm(at + "norm1", s.width, false)), l.norm2 = TRY(norm(at + "norm2", s.width, false));
  l.after1 = TRY(norm(at + "norm1_after", s.width, s.block == Block::sandwich));
  l.after2 = TRY(norm(at + "norm2_after", s.width, s.block == Block::sandwich));
  return l;
}

Result<Decoder> Decoder::make(DecoderShape shape, DecoderWeights weights) {
  TRY(shape.check());
  Decoder d;
  d.shape_ = std::move(shape), d.weights_ = std::move(weights);
  const DecoderShape& s = d.shape_;
  for (int i = 0; i < int(s.layers.size()); ++i) d.layers_.push_back(TRY(d.layer(i)));
  int64_t page_at = 0;
  for (size_t i = 0; i < s.layers.size(); ++i) d.layer_at_.push_back(page_at), page_at += s.layer_bytes(i);
  for (const LayerShape& l : s.layers) d.widest_ = std::max<int64_t>(d.widest_, l.ffn);
  for (const Layer& l : d.layers_)
    if (l.shared.up) d.widest_ = std::max(d.widest_, l.shared.up.w->outputs());
  const int64_t embed = s.embed ? s.embed : s.width;
  d.tokens_ = TRY(d.dense("tokens", s.vocab, embed, true)).w;
  const Dense head = TRY(d.dense("head", s.vocab, embed, false));
  d.head_ = head ? head : TRY(d.dense("tokens", s.vocab, embed, true));
  if (s.embed) {
    d.embed_in_ = TRY(d.dense("embed_in", s.width, embed, true));
    d.embed_out_ = TRY(d.dense("embed_out", embed, s.width, true));
  }
  d.scratch_.whole = s.whole_activations;
  d.norm_ = TRY(d.norm("norm", s.width, false)), d.embed_norm_ = TRY(d.norm("embed_norm", s.width, false));
  if (d.weights_.matrices.contains("positions"))
    d.positions_ = TRY(d.dense("positions", int64_t(s.context) + s.position_offset, s.width, true)).w;
  return d;
}

Decoder Decoder::of_shape(DecoderShape shape) {
  Decoder d;
  d.shape_ = std::move(shape);
  return d;
}

void Decoder::blank(std::span<const TokenRun> runs) {
  size_t rows = 0, states = 0;
  for (const TokenRun& run : runs) {
    rows += run.wanted == Wanted::all ? run.tokens.size() : run.wanted == Wanted::last;
    states += run.wanted == Wanted::state;
  }
  // Nothing writes into them, so what is there already is zero.
  logits_.resize(rows * size_t(shape_.vocab)), states_.resize(states * size_t(shape_.width));
}

Result<void> Decoder::check(const Adapter& adapter) const {
  for (const auto& [name, low] : adapter.layers) {
    const auto found = weights_.matrices.find(name);
    if (found == weights_.matrices.end() || name.find("layers.") != 0)
      return fail(Code::not_found, cat("an adapter of ", name, ", which this model has no such layer for"));
    const auto& w = found->second;
    if (low.a.inputs() != w.inputs() || low.b.outputs() != w.outputs() || low.a.outputs() != low.b.inputs())
      return fail(Code::invalid,
                  cat("an adapter of ", name, " with ", low.a.outputs(), " × ", low.a.inputs(), " and ",
                      low.b.outputs(), " × ", low.b.inputs(), "; the layer is ", w.outputs(), " × ", w.inputs()));
  }
  return {};
}

}  // namespace trine::run
