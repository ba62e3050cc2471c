// Fields to fields.
#include "host/attention.h"

namespace trine::host {

Result<void> run_attention(const arch::AttentionStep& step, std::span<const TensorView> in, const TensorView& out) {
  using View = arch::AttentionStep::View;
  auto at = [](const TensorView& v, const View& s) { return v.as<std::byte>() + s.offset * bytes(v.dtype); };
  auto tensor = [&](const TensorView& v, const View& s) {
    return Attention::Tensor{at(v, s), v.dtype, s.batch, s.head, s.place, s.dim};
  };
  Attention a{.batch = step.batch, .heads = step.heads, .kv_heads = step.kv_heads};
  a.queries = step.queries;
  a.keys = step.keys;
  a.dim = step.dim;
  a.value_dim = step.value_dim;
  a.scale = step.scale;
  a.q = tensor(in[0], step.q);
  a.k = tensor(in[1], step.k);
  a.v = tensor(in[2], step.v);
  a.out = {at(out, step.out), out.dtype, step.out.batch, step.out.head, step.out.place, step.out.dim};
  a.causal = step.causal;
  a.causal_offset = step.causal_offset;
  if (step.has_bias) {
    const View& b = step.bias;
    a.bias = {at(in[3], b), in[3].dtype, b.batch, b.head, b.place, b.dim};
    a.masked = step.masked;
  }
  return attention(a);
}

}  // namespace trine::host
