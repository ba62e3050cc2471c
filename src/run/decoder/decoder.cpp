// Finds a decoder's tensors by their names and checks their shapes; the step is in step.cpp.
#include "run/decoder/decoder.h"

#include "base/text.h"

namespace trine::run {

Result<void> DecoderShape::check() const {
  for (const auto& [name, value] : {std::pair{"width", width},
                                    {"heads", heads},
                                    {"kv_heads", kv_heads},
                                    {"head_dim", head_dim},
                                    {"ffn", ffn},
                                    {"vocab", vocab},
                                    {"context", context}})
    if (value <= 0 || value > (1 << 24)) return fail(Code::invalid, cat("a decoder whose ", name, " is ", value));
  if (heads % kv_heads) return fail(Code::invalid, cat(heads, " heads over ", kv_heads, " heads of keys"));
  if (head_dim % 16) return fail(Code::unsupported, cat("heads of ", head_dim, " dims; a multiple of 16 is served"));
  if (layers.empty() || layers.size() > 4096) return fail(Code::invalid, cat(layers.size(), " layers"));
  for (const LayerShape& l : layers)
    if (l.rope >= int32_t(ropes.size()) || l.window < 0)
      return fail(Code::invalid, "a layer names positions that are not there");
  for (const RopeTable& r : ropes)
    if (r.pairs <= 0 || 2 * r.pairs > head_dim || r.cos.size() != size_t(context) * size_t(r.pairs) ||
        r.sin.size() != r.cos.size())
      return fail(Code::invalid, cat("a table of positions with ", r.pairs, " pairs and ", r.cos.size(), " angles"));
  if (!slopes.empty() && slopes.size() != size_t(heads))
    return fail(Code::invalid, cat(slopes.size(), " slopes of ", heads, " heads"));
  if (qk_norm != "" && qk_norm != "head" && qk_norm != "whole")
    return fail(Code::unsupported, cat("norms of queries and keys of kind \"", qk_norm, "\""));
  return {};
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

Result<Decoder::Layer> Decoder::layer(int i) const {
  const DecoderShape& s = shape_;
  const std::string at = cat("layers.", i, ".");
  const int64_t queries = int64_t(s.heads) * s.head_dim, keys = int64_t(s.kv_heads) * s.head_dim;
  Layer l;
  l.q = TRY(dense(at + "q", queries, s.width, true)), l.k = TRY(dense(at + "k", keys, s.width, true));
  l.v = TRY(dense(at + "v", keys, s.width, true)), l.o = TRY(dense(at + "o", s.width, queries, true));
  l.up = TRY(dense(at + "up", s.ffn, s.width, true)), l.down = TRY(dense(at + "down", s.width, s.ffn, true));
  l.gate = TRY(dense(at + "gate", s.ffn, s.width, s.gated));
  l.norm1 = TRY(norm(at + "norm1", s.width, false)), l.norm2 = TRY(norm(at + "norm2", s.width, false));
  l.after1 = TRY(norm(at + "norm1_after", s.width, s.block == Block::sandwich));
  l.after2 = TRY(norm(at + "norm2_after", s.width, s.block == Block::sandwich));
  const bool whole = s.qk_norm == "whole";
  l.q_norm = TRY(norm(at + "q_norm", whole ? queries : s.head_dim, !s.qk_norm.empty()));
  l.k_norm = TRY(norm(at + "k_norm", whole ? keys : s.head_dim, !s.qk_norm.empty()));
  if (const auto found = weights_.vectors.find(at + "sinks"); found != weights_.vectors.end()) {
    if (found->second.size() != size_t(s.heads))
      return fail(Code::invalid, cat(at, "sinks has ", found->second.size(), " values"));
    l.sinks = &found->second;
  }
  return l;
}

Result<Decoder> Decoder::make(DecoderShape shape, DecoderWeights weights) {
  TRY(shape.check());
  Decoder d;
  d.shape_ = std::move(shape), d.weights_ = std::move(weights);
  const DecoderShape& s = d.shape_;
  for (int i = 0; i < int(s.layers.size()); ++i) d.layers_.push_back(TRY(d.layer(i)));
  d.tokens_ = TRY(d.dense("tokens", s.vocab, s.width, true)).w;
  const Dense head = TRY(d.dense("head", s.vocab, s.width, false));
  d.head_ = head ? head : TRY(d.dense("tokens", s.vocab, s.width, true));
  d.norm_ = TRY(d.norm("norm", s.width, false)), d.embed_norm_ = TRY(d.norm("embed_norm", s.width, false));
  if (d.weights_.matrices.contains("positions"))
    d.positions_ = TRY(d.dense("positions", int64_t(s.context) + s.position_offset, s.width, true)).w;
  return d;
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
