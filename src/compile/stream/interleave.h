// Interleave: sums in PSUM that multiply by the same stationary tiles one after the other go side by side, multiply by
// multiply, as if their two loops were exchanged: each stationary tile, and each tile that both read, is then needed
// once. For kernels of NKI's functional dialect.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

void interleave_sums(Kernel& kernel);

}  // namespace trine::compile
