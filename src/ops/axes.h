// Lists of dims as ops are given them: checks with their messages, what is left, and tables of element offsets.
#pragma once

#include <string_view>

#include "base/text.h"
#include "ops/shape.h"

namespace trine::ops {

// Each dim of the attribute `name` is below `rank` and named once.
Result<void> check_axes(std::string_view name, const ir::Ints& axes, int rank);
Result<void> check_sorted_axes(std::string_view name, const ir::Ints& axes, int rank);

// An attribute with one entry per dim; `otherwise` for all where absent.
Result<ir::Ints> per_dim(const ir::Attrs& attrs, std::string_view name, size_t rank, int64_t otherwise);

bool holds(const ir::Ints& axes, int64_t axis);
ir::Ints axes_besides(int rank, const ir::Ints& axes);                    // ascending
Dims sizes_of(const Dims& dims, const ir::Ints& axes);                    // dims[axes[i]]
std::vector<int64_t> offsets_of(const Dims& dims, const ir::Ints& axes);  // row-major over those axes of a dense tensor

// A window sliding over one dim, as reduce_window and convolution have them.
struct WindowDim {
  int64_t size = 1, stride = 1, low = 0, high = 0, base_dilation = 1, window_dilation = 1;
  bool is_reversed = false;

  int64_t count(int64_t dim) const;  // positions of the window
  // The element of `dim` under tap `t` at position `at`, or -1 where there is padding or a hole.
  int64_t element(int64_t at, int64_t t, int64_t dim) const {
    const int64_t tap = is_reversed ? size - 1 - t : t;
    const int64_t position = at * stride + tap * window_dilation - low;
    if (position < 0 || position % base_dilation) return -1;
    return position / base_dilation < dim ? position / base_dilation : -1;
  }
};
// From window_dimensions, window_strides, base_dilations, window_dilations and padding.
Result<std::vector<WindowDim>> windows_from(const ir::Attrs& attrs, size_t rank);
Result<void> check_window(const WindowDim& window, int64_t dim);

}  // namespace trine::ops
