// Batch norm as ops that say what they write: torch's own writes the running statistics without its schema saying so.
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_native_batch_norm_legit_no_training.h>

#include "api/torch/aten.h"

namespace trine::api::neuron {

namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Three batch_norm(const at::Tensor& x, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                 const std::optional<at::Tensor>& mean, const std::optional<at::Tensor>& var, bool training,
                 double momentum, double eps) {
  const bool has_stats = mean && mean->defined() && var && var->defined();
  if (!has_stats) return at::_native_batch_norm_legit(x, weight, bias, training, momentum, eps);
  if (!training) {  // torch saves nothing then
    const at::Tensor none = at::empty({0}, mean->options());
    const at::Tensor out =
        std::get<0>(at::_native_batch_norm_legit_no_training(x, weight, bias, *mean, *var, momentum, eps));
    return {out, none, none};
  }
  auto [out, save_mean, save_scale, next_mean, next_var] =
      at::_native_batch_norm_legit_functional(x, weight, bias, *mean, *var, training, momentum, eps);
  mean->copy_(next_mean);
  var->copy_(next_var);
  return {out, save_mean, save_scale};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("native_batch_norm", TORCH_FN(batch_norm)); }
TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("native_batch_norm", TORCH_FN(batch_norm)); }

}  // namespace trine::api::neuron
