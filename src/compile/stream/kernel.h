// The recorded kernel under the names its passes use; see arch/program/kernel.h.
#pragma once

#include "arch/program/kernel.h"

namespace trine::compile {

using arch::begins_loop;
using arch::ends_loop;
using arch::is_fence;
using arch::kEngines;
using arch::Kernel;
using arch::KernelInsn;
using arch::only_engine;
using arch::Origin;

}  // namespace trine::compile
