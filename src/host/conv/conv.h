// Convolution in up to six dimensions, in any order of dimensions in memory, with strides, dilations of input and
// window, padding of either sign and groups: hence its gradients too.
// It runs as a multiply whose A panels are gathered from the input: no im2col buffer, no padded copy.
//   out[n, o, y] = sum over c, k of in[n, c, (y * stride + k * window_dilation - pad_low) / in_dilation] * w[o, c, k]
// where the division is exact and the position lies inside the input. Dtypes, sums and rounding are gemm's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "host/gemm/blocked.h"
#include "host/gemm/pack.h"

namespace trine::host {

constexpr int kSpaceMax = 6;

struct Conv {
  int64_t batch = 1, in_features = 1, out_features = 1, groups = 1;  // batch and features of one group

  struct Dim {
    int64_t in = 1, window = 1, out = 1;  // sizes
    int64_t stride = 1, pad_low = 0, in_dilation = 1, window_dilation = 1;
    bool reversed = false;                                // the window is read backwards
    int64_t in_stride = 0, w_stride = 0, out_stride = 0;  // of memory, in elements
  };
  int rank = 0;
  std::array<Dim, kSpaceMax> space = {};  // the first `rank`

  // Strides in elements. Of the weights, `batch_stride` is from output feature to output feature.
  struct Tensor {
    const void* data = nullptr;
    Dtype dtype = Dtype::f32;
    int64_t batch_stride = 0, feature_stride = 1, group_stride = 0;
  };
  Tensor input = {}, weights = {};
  struct Out {
    void* data = nullptr;
    Dtype dtype = Dtype::f32;
    int64_t batch_stride = 0, feature_stride = 1, group_stride = 0;
  };
  Out output = {};
  const PackedMatrix* packed_weights = nullptr;  // instead of weights: pack_weights() of this convolution
  Epilogue epilogue = {};  // rows are (batch, space) in order, columns features of all groups; only where conv_fuses()
  Simd simd = simd_best();
};

Result<void> conv(const Conv& c);
bool conv_fuses(const Conv& c);
// Fails for dilated inputs, whose weights are cut differently for each phase of the output.
Result<PackedMatrix> pack_weights(const Conv& c);
// Weights that already are a matrix [window x features, output features] in the order of conv's panels: pack_b() of it
// is pack_weights(). Only of one group.
std::optional<Matrix> weights_as_matrix(const Conv& c);

}  // namespace trine::host
