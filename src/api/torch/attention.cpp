// Attention whole, where no gradient is asked for: torch would take it apart into a dozen ops before they reach us.
// With one, or with dropout, torch's own parts run, which know their gradients.
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>

#include <algorithm>

#include "api/torch/aten.h"

#include "api/torch/call.h"

namespace trine::api::neuron {

namespace {

bool is_whole(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
              double dropout) {
  const auto is_plain = [](const at::Tensor& t) { return t.dim() == 4 && t.is_floating_point() && t.numel() > 0; };
  if (dropout != 0 || !is_plain(q) || !is_plain(k) || !is_plain(v)) return false;
  if (q.size(0) != k.size(0) || q.size(0) != v.size(0)) return false;
  const bool has_mask = mask && mask->defined();
  const bool needs_gradient =
      q.requires_grad() || k.requires_grad() || v.requires_grad() || (has_mask && mask->requires_grad());
  return !(needs_gradient && at::GradMode::is_enabled());
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, double dropout, bool is_causal, std::optional<double> scale,
                     bool enable_gqa) {
  if (!is_whole(q, k, v, mask, dropout))
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
  const at::AutoDispatchBelowAutograd below;
  return at::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
}

// Below autograd: what the function above found whole comes again, and what inference mode sends here first.
at::Tensor attention_below(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                           std::optional<double> scale, bool enable_gqa) {
  if (!is_whole(q, k, v, mask, dropout))
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::scaled_dot_product_attention", "");
  torch::jit::Stack stack{q,
                          k,
                          v,
                          mask ? c10::IValue(*mask) : c10::IValue(),
                          dropout,
                          is_causal,
                          scale ? c10::IValue(*scale) : c10::IValue(),
                          enable_gqa};
  fallback(op, &stack);
  return stack[0].toTensor();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("scaled_dot_product_attention", TORCH_FN(attention)); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("scaled_dot_product_attention", TORCH_FN(attention_below)); }

}  // namespace trine::api::neuron
