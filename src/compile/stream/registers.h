// Registers: every engine has its own, so whatever computes one in a kernel is repeated on each engine that reads it,
// and instructions that read registers get their engine here.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

void settle_registers(Kernel& kernel);

}  // namespace trine::compile
