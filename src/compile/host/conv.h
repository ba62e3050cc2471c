// A convolution of the graph as a step of a host plan.
#pragma once

#include "arch/plan/plan.h"
#include "compile/graph/index_map.h"

namespace trine::compile {

// Floats up to 32 bits: what the host's convolution computes. Other dtypes go by the reference meaning.
bool is_host_conv(const ir::Node& node);
arch::ConvStep plan_conv(const ir::Node& conv, const Walk& x, const Walk& w);

}  // namespace trine::compile
