// What the user says about numbers: neuronx-cc's flags in NEURON_CC_FLAGS (`--auto-cast`, `--auto-cast-type`), the
// runtime's NEURON_RT_STOCHASTIC_ROUNDING_EN and _SEED, or the same as compiler options of one program.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "compile/graph/numerics.h"

namespace trine::api {

// One option, by its name with or without dashes in front; a name of others is an error.
Result<void> set_numerics(compile::Numerics& numerics, std::string_view name, std::string_view value);
// Flags as a command line has them; those that are not about numbers are left to others.
Result<void> set_numerics_by_flags(compile::Numerics& numerics, std::string_view flags);
Result<compile::Numerics> numerics_from_environment();
std::string numerics_text(const compile::Numerics& numerics);  // as flags; empty for the default

}  // namespace trine::api
