// The largest of each part of a row, and where it is first met, by Vector's searches: parts on partitions.
// arg_max_parts(x[R, N]) {parts, length}: f32[R, parts, 3], of each part the largest number, its place in the part and
// that of the first NaN; a place that is none is beyond 2^31. The last part may be shorter. How the parts of a row are
// joined is the graph's (decompose_order.cpp).
#pragma once

#include "compile/device/memory/store.h"

namespace trine::compile::device {

inline constexpr std::string_view kArgMaxParts = "arg_max_parts";

void lower_arg_max(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
