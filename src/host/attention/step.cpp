// Fields to fields.
#include "host/attention/attention.h"

#include <algorithm>

namespace trine::host {

Result<void> run_attention(const arch::AttentionStep& step, std::span<const TensorView> in, const TensorView& out) {
  using View = arch::AttentionStep::View;
  auto at = [](const TensorView& v, const View& s) { return v.as<std::byte>() + s.offset * bytes(v.dtype); };
  auto tensor = [&](const TensorView& v, const View& s) {
    return Attention::Tensor{at(v, s), v.dtype, s.batch, s.head, s.position, s.dim};
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
  a.out = {at(out, step.out), out.dtype, step.out.batch, step.out.head, step.out.position, step.out.dim};
  a.causal = step.causal;
  a.causal_offset = step.causal_offset;
  if (step.has_bias) {
    const View& b = step.bias;
    a.bias = {at(in[3], b), in[3].dtype, b.batch, b.head, b.position, b.dim};
    a.masked = step.masked;
  }
  size_t next = step.has_bias ? 4 : 3;
  auto patch = [&](const arch::AttentionStep::Patch& p, int64_t positions) {
    if (p.count == 0) return Attention::Patch{};
    const TensorView &data = in[next++], &start = in[next++];
    const int64_t wanted = dispatch_element(start.dtype, [&](auto element) -> int64_t {
      using E = decltype(element);
      if constexpr (E::kIsInteger) {
        return int64_t(E::load(*start.as<const typename E::Storage>()));
      } else {
        return 0;
      }
    });
    const int64_t first = std::clamp<int64_t>(wanted, 0, positions - p.count);
    return Attention::Patch{at(data, p.view), first, p.count, p.view.batch, p.view.head, p.view.position, p.view.dim};
  };
  a.k.patch = patch(step.k_patch, step.k_positions);
  a.v.patch = patch(step.v_patch, step.v_positions);
  return attention(a);
}

}  // namespace trine::host
