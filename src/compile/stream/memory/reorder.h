// Reorder: another order of one core's instructions, so that fewer PSUM tensors live at once. For kernels that fill
// more of them than there are banks before they read any, as loops written one after the other do.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

// False when it finds no order that fits; the kernel is then as it was.
bool reorder_for_psum(Kernel& kernel, int core, int64_t limit);

}  // namespace trine::compile
