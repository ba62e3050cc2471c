// Windows sliding over the spatial dims of an image: what convolutions and pools say in the same words.
#pragma once

#include "front/onnx/call.h"

namespace trine::front::onnx {

struct Window {
  Ints kernel = {}, strides = {}, dilations = {}, low = {}, high = {};  // one per spatial dim; low, high: padding
  Ints spill = {};                                                      // of high: what ceil_mode added
  Dims result = {};                                                     // positions in each spatial dim
};

// From kernel_shape (or the kernel given), strides, dilations, pads, auto_pad and ceil_mode.
Result<Window> window_of(Call& c, const Dims& image, Ints kernel);

// The convolution of an image [n, c, ...] with a kernel [m, c / group, ...], products summed in `result`.
Made convolve(Call& c, Value x, Value w, Dtype result);

}  // namespace trine::front::onnx
