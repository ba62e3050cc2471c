// MLIR bytecode to a Module: StableHLO's portable artifacts (VHLO), whose ops, attributes and types are brought to
// StableHLO's own, and plain bytecode of the stablehlo, chlo, func and sdy dialects as jaxlib 0.10 writes it.
#pragma once

#include <string_view>

#include "base/result.h"
#include "front/stablehlo/module.h"

namespace trine::front::stablehlo {

// `bytes` must outlive the module: constants and names point into it. read.h keeps them together.
Result<void> read_bytecode(std::string_view bytes, Module& module);

}  // namespace trine::front::stablehlo
