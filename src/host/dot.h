// A plan's multiplies: the batch dims walked, each item given to the kernel its dtypes have.
#pragma once

#include <span>

#include "arch/plan/plan.h"
#include "host/kept.h"

namespace trine::host {

// kept: beside B's bytes, or null.
Result<void> run_dot(const arch::GemmStep& step, std::span<const TensorView> in, std::span<const TensorView> out,
                     Kept* kept);

}  // namespace trine::host
