// batch_norm_grad: gradients of batch_norm_training for x, scale and offset. Inputs are x, scale, mean, variance and
// the gradient of the result. C1: the middle three have one element per feature, the last is as x.
#include "ops/network/batch_norm.h"

namespace trine::ops {

extern const Op op_batch_norm_grad{
    .name = "batch_norm_grad",
    .kind = OpKind::other,
    .arity = 5,
    .attrs = "epsilon feature_index",
    .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
      const ir::Type vector = TRY(check_batch_norm(call, 1, 3));
      if (!ir::same_tensor(call.inputs[0], call.inputs[4]))
        return fail(Code::invalid,
                    cat("the gradient is ", ir::text(call.inputs[4]), "; x is ", ir::text(call.inputs[0])));
      return std::vector<ir::Type>{ir::tensor_type(call.inputs[0].dtype, call.inputs[0].dims), vector, vector};
    },
    .eval = [](const Eval& e) -> Result<void> {
      const Features f(e.in[0].dims, e.node.attrs.integer("feature_index"));
      const double epsilon = e.node.attrs.real("epsilon"), n = double(f.elements.size());
      auto x = load_wide<double>(e.in[0]);
      const auto scale = load_wide<double>(e.in[1]), means = load_wide<double>(e.in[2]),
                 variances = load_wide<double>(e.in[3]), grad = load_wide<double>(e.in[4]);
      WideArray<double> scale_grad(scale.size), offset_grad(scale.size);
      for (int64_t c = 0; c < scale.size; ++c) {
        const int64_t start = f.starts[size_t(c)];
        const double inverse = 1 / std::sqrt(variances[c] + epsilon);
        double sum = 0, product = 0;  // of the gradient, and with the normalised x
        for (int64_t i : f.elements) {
          sum += grad[start + i];
          product += grad[start + i] * (x[start + i] - means[c]) * inverse;
        }
        for (int64_t i : f.elements) {
          const double normal = (x[start + i] - means[c]) * inverse;
          x[start + i] = scale[c] * inverse * (grad[start + i] - sum / n - normal * product / n);
        }
        scale_grad[c] = product;
        offset_grad[c] = sum;
      }
      store_wide(x, e.out[0]);
      store_wide(scale_grad, e.out[1]);
      store_wide(offset_grad, e.out[2]);
      return {};
    }};

}  // namespace trine::ops
