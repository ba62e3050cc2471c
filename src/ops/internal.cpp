// Windows at offsets; see internal.h.
#include "ops/internal.h"

#include <algorithm>

namespace trine::ops {

Result<void> check_windows(const ir::Attrs& attrs, const ir::Type& x, const ir::Type& offsets,
                           const ir::Type& windows) {
  if (offsets.dtype != Dtype::s32 || offsets.rank() != 1)
    return fail(Code::invalid, cat("offsets are ", ir::text(offsets), "; s32 of one dim was expected"));
  const ir::Ints &sizes = attrs.ints("sizes"), &strides = attrs.ints("strides");
  if (sizes.size() != strides.size())
    return fail(Code::invalid, cat(sizes.size(), " sizes and ", strides.size(), " strides"));
  int64_t left = x.elements() - 1;  // elements after the first that a window may reach
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 1 || strides[d] < 1)
      return fail(Code::invalid,
                  cat("size ", sizes[d], " and stride ", strides[d], " of dim ", d, "; both are above 0"));
    if (left >= 0 && sizes[d] - 1 > left / strides[d]) left = -1;
    if (left >= 0) left -= (sizes[d] - 1) * strides[d];
  }
  if (left < 0) return fail(Code::invalid, cat("a window is larger than ", ir::text(x)));
  const auto without_ones = [](auto begin, auto end) {
    Dims out;
    std::copy_if(begin, end, std::back_inserter(out), [](int64_t n) { return n != 1; });
    return out;
  };
  const bool fits =
      windows.rank() > 0 && windows.dtype == x.dtype && windows.dims[0] == offsets.dims[0] &&
      without_ones(windows.dims.begin() + 1, windows.dims.end()) == without_ones(sizes.begin(), sizes.end());
  if (fits) return {};
  Dims expected = {offsets.dims[0]};
  expected.insert(expected.end(), sizes.begin(), sizes.end());
  return fail(Code::invalid, cat("the windows are ", ir::text(windows), "; ", shape_text(x.dtype, expected),
                                 " was expected, but for dims of one"));
}

std::vector<int64_t> window_elements(const ir::Attrs& attrs) {
  std::vector<int64_t> out;
  for_each_index(attrs.ints("sizes"),
                 [&](const Dims& index, int64_t) { out.push_back(offset_of(index, attrs.ints("strides"))); });
  return out;
}

Result<int64_t> window_start(const TensorView& offsets, int64_t w, const TensorView& x,
                             const std::vector<int64_t>& elements) {
  const int64_t start = integer_at(offsets, w);
  if (start >= 0 && start < x.elements() - elements.back()) return start;
  return fail(Code::out_of_range, cat("window ", w, " begins at element ", start, " and spans ", elements.back() + 1,
                                      "; there are ", x.elements()));
}

}  // namespace trine::ops
