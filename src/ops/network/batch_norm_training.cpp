// batch_norm_training: (x - mean) / sqrt(variance + epsilon) * scale + offset with mean and variance of each feature
// over all other dims. Inputs are x, scale, offset; results the normalised x, mean and variance (not corrected).
// C1: scale and offset have one element per feature.
#include "ops/network/batch_norm.h"

namespace trine::ops {

extern const Op op_batch_norm_training{
    .name = "batch_norm_training",
    .kind = OpKind::other,
    .arity = 3,
    .attrs = "epsilon feature_index",
    .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
      const ir::Type vector = TRY(check_batch_norm(call, 1, 2));
      return std::vector<ir::Type>{ir::tensor_type(call.inputs[0].dtype, call.inputs[0].dims), vector, vector};
    },
    .eval = [](const Eval& e) -> Result<void> {
      const Features f(e.in[0].dims, e.node.attrs.integer("feature_index"));
      const double epsilon = e.node.attrs.real("epsilon");
      auto x = load_wide<double>(e.in[0]);
      const auto scale = load_wide<double>(e.in[1]), offset = load_wide<double>(e.in[2]);
      WideArray<double> means(scale.size), variances(scale.size);
      const double n = double(f.elements.size());
      for (size_t c = 0; c < f.starts.size(); ++c) {
        double sum = 0, squares = 0;
        for (int64_t i : f.elements) sum += x[f.starts[c] + i];
        const double mean = sum / n;
        for (int64_t i : f.elements) squares += (x[f.starts[c] + i] - mean) * (x[f.starts[c] + i] - mean);
        means[int64_t(c)] = mean;
        variances[int64_t(c)] = squares / n;
        const double factor = scale[int64_t(c)] / std::sqrt(squares / n + epsilon);
        for (int64_t i : f.elements) x[f.starts[c] + i] = (x[f.starts[c] + i] - mean) * factor + offset[int64_t(c)];
      }
      store_wide(x, e.out[0]);
      store_wide(means, e.out[1]);
      store_wide(variances, e.out[2]);
      return {};
    }};

}  // namespace trine::ops
