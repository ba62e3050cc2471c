// Lists of dims and sliding windows.
#include "ops/axes.h"

#include <algorithm>

namespace trine::ops {

Result<void> check_axes(std::string_view name, const ir::Ints& axes, int rank) {
  std::vector<bool> seen(size_t(rank), false);
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= rank) return fail(Code::invalid, cat(name, " names dim ", axis, "; the rank is ", rank));
    if (seen[size_t(axis)]) return fail(Code::invalid, cat(name, " names dim ", axis, " twice"));
    seen[size_t(axis)] = true;
  }
  return {};
}

Result<void> check_sorted_axes(std::string_view name, const ir::Ints& axes, int rank) {
  TRY(check_axes(name, axes, rank));
  if (!std::is_sorted(axes.begin(), axes.end())) return fail(Code::invalid, cat(name, " must be in ascending order"));
  return {};
}

Result<ir::Ints> per_dim(const ir::Attrs& attrs, std::string_view name, size_t rank, int64_t otherwise) {
  const ir::Ints& given = attrs.ints(name);
  if (given.empty()) return ir::Ints(rank, otherwise);
  if (given.size() != rank)
    return fail(Code::invalid, cat(name, " has ", given.size(), " entries; ", rank, " were expected"));
  return given;
}

bool holds(const ir::Ints& axes, int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

ir::Ints axes_besides(int rank, const ir::Ints& axes) {
  ir::Ints rest;
  for (int64_t d = 0; d < rank; ++d)
    if (!holds(axes, d)) rest.push_back(d);
  return rest;
}

Dims sizes_of(const Dims& dims, const ir::Ints& axes) {
  Dims sizes;
  for (int64_t axis : axes) sizes.push_back(dims[size_t(axis)]);
  return sizes;
}

std::vector<int64_t> offsets_of(const Dims& dims, const ir::Ints& axes) {
  const Dims strides = sizes_of(row_major_strides(dims), axes);
  std::vector<int64_t> offsets;
  for_each_index(sizes_of(dims, axes),
                 [&](const Dims& index, int64_t) { offsets.push_back(offset_of(index, strides)); });
  return offsets;
}

int64_t WindowDim::count(int64_t dim) const {
  const int64_t padded = low + (dim == 0 ? 0 : (dim - 1) * base_dilation + 1) + high;
  const int64_t reach = size == 0 ? 0 : (size - 1) * window_dilation + 1;
  return padded <= 0 || reach > padded ? 0 : (padded - reach) / stride + 1;
}

Result<void> check_window(const WindowDim& w, int64_t dim) {
  // Keeps every product and sum below within 63 bits, whatever a file says.
  constexpr int64_t kLimit = int64_t{1} << 30;
  for (int64_t v : {w.stride, w.base_dilation, w.window_dilation})
    if (v < 1 || v > kLimit)
      return fail(Code::invalid, cat("a stride or dilation of ", v, "; at least 1 was expected"));
  for (int64_t v : {w.size, dim})
    if (v < 0 || v > kLimit) return fail(Code::invalid, cat("a window of ", v, " elements"));
  for (int64_t v : {w.low, w.high})
    if (v < -(kLimit << 30) || v > kLimit << 30) return fail(Code::invalid, cat("a padding of ", v, " elements"));
  return {};
}

Result<std::vector<WindowDim>> windows_from(const ir::Attrs& attrs, size_t rank) {
  const ir::Ints sizes = TRY(per_dim(attrs, "window_dimensions", rank, 1));
  const ir::Ints strides = TRY(per_dim(attrs, "window_strides", rank, 1));
  const ir::Ints bases = TRY(per_dim(attrs, "base_dilations", rank, 1));
  const ir::Ints dilations = TRY(per_dim(attrs, "window_dilations", rank, 1));
  const ir::Ints padding = TRY(per_dim(attrs, "padding", 2 * rank, 0));
  std::vector<WindowDim> windows;
  for (size_t d = 0; d < rank; ++d)
    windows.push_back({.size = sizes[d],
                       .stride = strides[d],
                       .low = padding[2 * d],
                       .high = padding[2 * d + 1],
                       .base_dilation = bases[d],
                       .window_dilation = dilations[d]});
  return windows;
}

}  // namespace trine::ops
