// The dimension numbers and window of a convolution, read from its attributes; shared by its rule and its kernels.
#pragma once

#include "ops/axes.h"

namespace trine::ops {

struct ConvolutionShape {
  int64_t input_batch = 0, input_feature = 0, kernel_input_feature = 0, kernel_output_feature = 0, output_batch = 0,
          output_feature = 0;
  ir::Ints input_spatial = {}, kernel_spatial = {}, output_spatial = {};
  int64_t feature_groups = 1, batch_groups = 1;
  std::vector<WindowDim> windows = {};  // per spatial dim

  static Result<ConvolutionShape> from(const ir::Attrs& attrs, const Dims& input, const Dims& kernel);
  Dims output_dims(const Dims& input, const Dims& kernel) const;
};

}  // namespace trine::ops
