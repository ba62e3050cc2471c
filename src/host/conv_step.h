// A host plan's convolution through conv().
#pragma once

#include <span>

#include "arch/plan/plan.h"
#include "host/kept.h"

namespace trine::host {

Result<void> run_conv(const arch::ConvStep& step, std::span<const TensorView> in, const TensorView& out, Kept* kept);

}  // namespace trine::host
