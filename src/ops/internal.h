// What internal ops share with the passes that make them: marks in their numbers, names of their attributes, and
// windows at offsets that data gives. Not the ops themselves: each has its file, and no front-end makes one
// (Op::is_internal).
#pragma once

#include <vector>

#include "ops/shape.h"

namespace trine::ops {

inline constexpr int64_t kNowhere = INT32_MAX;           // window_store: the offset of a window that is dropped
inline constexpr std::string_view kNearest = "nearest";  // convert: floats to the nearest integer
inline constexpr float kNoIndex = 0x1p32F;               // arg_max_parts: the index of what is nowhere

// The inputs and results of attention_gradient, in order, by the names of the attributes with their dims.
inline constexpr std::string_view kGradientInputs[] = {"q", "k", "v", "out", "gradient", "top", "sum", "bias"};
inline constexpr std::string_view kGradientResults[] = {"dq", "dk", "dv"};
inline constexpr std::string_view kGradientFactors[] = {"dq_factor", "dk_factor", "dv_factor"};
inline constexpr size_t kTopInput = 5, kSumInput = 6, kBiasInput = 7;

// A window is `sizes` elements, `strides` apart in the flat operand, from an offset on.
// Checks offsets s32[W], the two attributes, that a window fits x, and that `windows` is [W, sizes...] but for ones.
Result<void> check_windows(const ir::Attrs& attrs, const ir::Type& x, const ir::Type& offsets, const ir::Type& windows);
// The elements of a window that begins at 0, in row-major order.
std::vector<int64_t> window_elements(const ir::Attrs& attrs);
// Offset `w`, if the window there is inside x.
Result<int64_t> window_start(const TensorView& offsets, int64_t w, const TensorView& x,
                             const std::vector<int64_t>& elements);

}  // namespace trine::ops
