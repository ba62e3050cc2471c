// Convolutions as multiplies: rows are places of the result, depth is the window, read straight from the input.
#pragma once

#include <span>

#include "arch/plan/plan.h"

namespace trine::host {

Result<void> run_conv(const arch::ConvStep& step, std::span<const TensorView> in, const TensorView& out);

}  // namespace trine::host
