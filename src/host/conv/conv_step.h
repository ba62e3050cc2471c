// A host plan's convolution through conv().
#pragma once

#include <span>

#include "arch/plan/plan.h"
#include "host/gemm/blocked.h"
#include "host/gemm/packed.h"

namespace trine::host {

// kept: beside the kernel's bytes, or null. With an epilogue, `out` may be without data.
Result<void> run_conv(const arch::ConvStep& step, std::span<const TensorView> in, const TensorView& out,
                      PackedForms* packed_forms, const Epilogue& epilogue);

}  // namespace trine::host
