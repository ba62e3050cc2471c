// MLIR text to a Module: StableHLO's short forms and the generic form, as jax's as_text() and MLIR print them, with
// the func, chlo and sdy ops that come with it, locations and aliases.
#pragma once

#include <string_view>

#include "base/result.h"
#include "front/stablehlo/module.h"

namespace trine::front::stablehlo {

// `text` must outlive the module, as for read_bytecode. What has no location gets its position in the file `name`.
// Errors say line:column.
Result<void> read_text(std::string_view text, std::string_view name, Module& module);

// One attribute or type and nothing else; bytecode holds some as text.
Result<AttrId> parse_attr(Module& module, std::string_view text);
Result<TypeId> parse_type(Module& module, std::string_view text);

}  // namespace trine::front::stablehlo
