// A plan's multiplies: the batch dims walked, each item given to the kernel its dtypes have.
#pragma once

#include <span>

#include "arch/plan/plan.h"
#include "host/gemm/blocked.h"
#include "host/gemm/packed.h"

namespace trine::host {

// kept: beside B's bytes, or null. With an epilogue, `out` may be without data.
Result<void> run_dot(const arch::GemmStep& step, std::span<const TensorView> in, const TensorView& out,
                     PackedForms* packed_forms, const Epilogue& epilogue);

}  // namespace trine::host
