// Reading and checking a convolution's numbers: every later index is in range by what is checked here.
#include "ops/network/convolution_shape.h"

namespace trine::ops {

namespace {

Result<void> check_numbers(std::string_view name, int64_t a, int64_t b, const ir::Ints& spatial, size_t rank) {
  ir::Ints all = spatial;
  all.push_back(a);
  all.push_back(b);
  if (!is_permutation(all, int(rank)))
    return fail(Code::invalid,
                cat("the dimension numbers of the ", name, " do not name each of its ", rank, " dims once"));
  return {};
}

Result<void> check_groups(const ConvolutionShape& s, const Dims& input, const Dims& kernel) {
  const int64_t features = input[size_t(s.input_feature)], batch = input[size_t(s.input_batch)];
  const int64_t inputs = kernel[size_t(s.kernel_input_feature)], outputs = kernel[size_t(s.kernel_output_feature)];
  if (s.feature_groups < 1 || s.batch_groups < 1 || (s.feature_groups > 1 && s.batch_groups > 1))
    return fail(Code::invalid, cat("feature_group_count ", s.feature_groups, " and batch_group_count ", s.batch_groups,
                                   "; both at least 1 and one of them 1 were expected"));
  if (features % s.feature_groups || features / s.feature_groups != inputs)
    return fail(Code::invalid,
                cat(features, " input features in ", s.feature_groups, " groups; the kernel takes ", inputs));
  if (outputs % s.feature_groups || outputs % s.batch_groups || batch % s.batch_groups)
    return fail(Code::invalid, cat(outputs, " output features and a batch of ", batch, " do not divide into groups"));
  return {};
}

}  // namespace

Result<ConvolutionShape> ConvolutionShape::from(const ir::Attrs& attrs, const Dims& input, const Dims& kernel) {
  ConvolutionShape s{.input_batch = attrs.integer("input_batch"),
                     .input_feature = attrs.integer("input_feature"),
                     .kernel_input_feature = attrs.integer("kernel_input_feature"),
                     .kernel_output_feature = attrs.integer("kernel_output_feature"),
                     .output_batch = attrs.integer("output_batch"),
                     .output_feature = attrs.integer("output_feature"),
                     .input_spatial = attrs.ints("input_spatial"),
                     .kernel_spatial = attrs.ints("kernel_spatial"),
                     .output_spatial = attrs.ints("output_spatial"),
                     .feature_groups = attrs.integer("feature_group_count", 1),
                     .batch_groups = attrs.integer("batch_group_count", 1)};
  if (input.size() != kernel.size() || input.size() < 2)
    return fail(Code::invalid, cat("an input of ", input.size(), " dims and a kernel of ", kernel.size()));
  TRY(check_numbers("input", s.input_batch, s.input_feature, s.input_spatial, input.size()));
  TRY(check_numbers("kernel", s.kernel_input_feature, s.kernel_output_feature, s.kernel_spatial, input.size()));
  TRY(check_numbers("output", s.output_batch, s.output_feature, s.output_spatial, input.size()));
  TRY(check_groups(s, input, kernel));
  const size_t rank = s.input_spatial.size();
  const ir::Ints strides = TRY(per_dim(attrs, "window_strides", rank, 1));
  const ir::Ints lhs = TRY(per_dim(attrs, "lhs_dilation", rank, 1)), rhs = TRY(per_dim(attrs, "rhs_dilation", rank, 1));
  const ir::Ints padding = TRY(per_dim(attrs, "padding", 2 * rank, 0));
  const ir::Ints reversal = TRY(per_dim(attrs, "window_reversal", rank, 0));
  for (size_t d = 0; d < rank; ++d) {
    s.windows.push_back({.size = kernel[size_t(s.kernel_spatial[d])],
                         .stride = strides[d],
                         .low = padding[2 * d],
                         .high = padding[2 * d + 1],
                         .base_dilation = lhs[d],
                         .window_dilation = rhs[d],
                         .is_reversed = reversal[d] != 0});
    TRY(check_window(s.windows.back(), input[size_t(s.input_spatial[d])]));
  }
  return s;
}

Dims ConvolutionShape::output_dims(const Dims& input, const Dims& kernel) const {
  Dims dims(input.size(), 0);
  dims[size_t(output_batch)] = input[size_t(input_batch)] / batch_groups;
  dims[size_t(output_feature)] = kernel[size_t(kernel_output_feature)];
  for (size_t d = 0; d < windows.size(); ++d)
    dims[size_t(output_spatial[d])] = windows[d].count(input[size_t(input_spatial[d])]);
  return dims;
}

}  // namespace trine::ops
