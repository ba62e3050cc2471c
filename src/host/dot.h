// A plan's multiplies: the batch dims walked, each item given to the kernel its dtypes have.
#pragma once

#include <span>

#include "arch/plan/plan.h"

namespace trine::host {

Result<void> run_dot(const arch::GemmStep& step, std::span<const TensorView> in, std::span<const TensorView> out);

}  // namespace trine::host
