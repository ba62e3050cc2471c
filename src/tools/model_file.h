// Models by file name, for the commands that take one: ONNX, or StableHLO as bytecode or text.
#pragma once

#include <string>
#include <vector>

#include "front/onnx/read.h"
#include "ir/graph.h"

namespace trine::tools {

// "NAME=1x128": an input of an ONNX file, or one of its symbolic dims.
Result<void> add_shape(std::string_view text, front::OnnxOptions& options);

Result<ir::Graph> read_model(const std::string& path, const std::vector<std::string>& shapes);

}  // namespace trine::tools
