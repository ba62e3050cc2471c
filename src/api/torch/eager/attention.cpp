// Attention whole: torch would take it apart into a dozen ops before they reach us. Where a gradient is asked for, and
// for tensors that are spread over ranks, it is the op that torch has a gradient and rules for (flash attention:
// context parallelism knows no other); with a mask or dropout torch's own parts run.
#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>

#include <algorithm>

#include "api/torch/aten.h"

#include "api/torch/ask_python.h"
#include "api/torch/eager/call.h"

namespace trine::api::neuron {

namespace {

bool is_plain(const at::Tensor& t) { return t.dim() == 4 && t.is_floating_point() && t.sym_numel() > 0; }

bool are_plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout) {
  return dropout == 0 && is_plain(q) && is_plain(k) && is_plain(v) && q.sym_size(0) == k.sym_size(0) &&
         q.sym_size(0) == v.sym_size(0);
}

// A tensor that torch spreads over ranks, or another that Python dispatches, except those of tracing.
bool is_subclass(const at::Tensor& t) {
  if (!t.unsafeGetTensorImpl()->is_python_dispatch()) return false;
  const std::string name = class_of(t);
  return name != "FakeTensor" && name != "FunctionalTensor";
}

bool is_whole(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
              double dropout) {
  if (!are_plain(q, k, v, dropout) || is_subclass(q)) return false;
  const bool has_mask = mask && mask->defined();
  const bool needs_gradient =
      q.requires_grad() || k.requires_grad() || v.requires_grad() || (has_mask && mask->requires_grad());
  return !(needs_gradient && at::GradMode::is_enabled());
}

bool is_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
              double dropout, bool is_causal) {
  if (!at::globalContext().userEnabledFlashSDP() || (mask && mask->defined())) return false;
  if (!are_plain(q, k, v, dropout) || q.scalar_type() == at::kDouble) return false;
  if (q.sym_size(1) != k.sym_size(1) || q.sym_size(1) != v.sym_size(1) || q.sym_size(3) != v.sym_size(3)) return false;
  return !is_causal || q.sym_size(2) == k.sym_size(2);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, double dropout, bool is_causal, std::optional<double> scale,
                     bool enable_gqa) {
  if (!is_whole(q, k, v, mask, dropout)) {
    if (is_flash(q, k, v, mask, dropout, is_causal))
      return std::get<0>(at::_scaled_dot_product_flash_attention(q, k, v, dropout, is_causal, false, scale));
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
  }
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

// The same op under the name that torch's gradients and rules know: what it gives besides is of other machines.
using Flash = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                         at::Tensor, at::Tensor>;
Flash flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout, bool is_causal, bool,
            std::optional<double> scale) {
  const auto [out, sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, is_causal, std::nullopt, scale);
  const auto seeds = q.options().dtype(at::kUInt64);
  return {out,
          sums,
          at::Tensor(),
          at::Tensor(),
          q.size(2),
          k.size(2),
          at::empty({2}, seeds),
          at::empty({}, seeds),
          at::empty({0}, q.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& sums, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, double dropout,
    bool is_causal, const at::Tensor&, const at::Tensor&, std::optional<double> scale) {
  return at::_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, sums, dropout, is_causal,
                                                                  std::nullopt, scale);
}

void register_flash(torch::Library& m) {
  m.impl("_scaled_dot_product_flash_attention", TORCH_FN(flash));
  m.impl("_scaled_dot_product_flash_attention_backward", TORCH_FN(flash_backward));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_flash(m); }
TORCH_LIBRARY_IMPL(aten, XLA, m) { register_flash(m); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("scaled_dot_product_attention", TORCH_FN(attention)); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("scaled_dot_product_attention", TORCH_FN(attention_below)); }

}  // namespace trine::api::neuron
