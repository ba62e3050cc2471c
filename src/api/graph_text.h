// Programs as callers hand them over: StableHLO, portable artifact or text, or the text of a tensor graph
// (docs/graph.md).
#pragma once

#include <string>

#include "base/result.h"
#include "compile/aot/artifact.h"

namespace trine::api {

Result<ir::Graph> read_graph(std::string artifact);

}  // namespace trine::api
