// Draws how the chips of a machine are wired, as neuron-ls --topology does.
#pragma once

#include <string>

#include "arch/instances/instance.h"

namespace trine::tools {

std::string draw_topology(const arch::Instance& instance);

}  // namespace trine::tools
