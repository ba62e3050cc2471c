// batch_norm_inference: (x - mean) / sqrt(variance + epsilon) * scale + offset, with mean and variance given.
// Inputs are x, scale, offset, mean, variance. C1: the last four have one element per feature.
#include "ops/network/batch_norm.h"

namespace trine::ops {

extern const Op op_batch_norm_inference{
    .name = "batch_norm_inference",
    .kind = OpKind::other,
    .arity = 5,
    .attrs = "epsilon feature_index",
    .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
      TRY(check_batch_norm(call, 1, 4));
      return same_as_first(call);
    },
    .eval = [](const Eval& e) -> Result<void> {
      const Features f(e.in[0].dims, e.node.attrs.integer("feature_index"));
      const double epsilon = e.node.attrs.real("epsilon");
      auto x = load_wide<double>(e.in[0]);
      const auto scale = load_wide<double>(e.in[1]), offset = load_wide<double>(e.in[2]);
      const auto mean = load_wide<double>(e.in[3]), variance = load_wide<double>(e.in[4]);
      for (int64_t c = 0; c < scale.size; ++c) {
        const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
        for (int64_t i : f.elements) {
          double& v = x[f.starts[size_t(c)] + i];
          v = (v - mean[c]) * factor + offset[c];
        }
      }
      store_wide(x, e.out[0]);
      return {};
    }};

}  // namespace trine::ops
