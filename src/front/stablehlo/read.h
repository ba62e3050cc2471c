// A StableHLO module from bytes of any kind: MLIR bytecode by its magic number, what jax.export serializes, else text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "front/stablehlo/module.h"

namespace trine::front::stablehlo {

// The module keeps the bytes: its constants point into them. `name` begins the location of an error.
Result<Module> read_module(std::string bytes, std::string_view name);

}  // namespace trine::front::stablehlo
