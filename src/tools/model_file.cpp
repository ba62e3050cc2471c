// Reading models; see model_file.h.
#include "tools/model_file.h"

#include <charconv>

#include "base/file.h"
#include "base/text.h"
#include "front/stablehlo/graph/graph.h"
#include "front/stablehlo/read.h"

namespace trine::tools {

Result<void> add_shape(std::string_view text, front::OnnxOptions& options) {
  const size_t at = text.rfind('=');
  const auto wrong = [&] {
    return fail(Code::invalid,
                cat("--shape ", text, ": expected NAME=1x128, the name of an input or of a symbolic dim"));
  };
  if (at == std::string_view::npos || at == 0) return wrong();
  Dims dims;
  for (std::string_view part : split(text.substr(at + 1), 'x')) {
    if (part.empty() && text.size() == at + 1) continue;  // a scalar
    int64_t d = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), d);
    if (error != std::errc{} || end != part.data() + part.size() || d < 0) return wrong();
    dims.push_back(d);
  }
  options.shapes[std::string(text.substr(0, at))] = std::move(dims);
  return {};
}

Result<ir::Graph> read_model(const std::string& path, const std::vector<std::string>& shapes) {
  std::string bytes = TRY(read_file(path));
  if (path.ends_with(".onnx")) {
    front::OnnxOptions options;
    options.file = path;
    for (const std::string& s : shapes) TRY(add_shape(s, options));
    return front::read_onnx(bytes, options);
  }
  if (!shapes.empty()) return fail(Code::invalid, "--shape is for ONNX files; StableHLO has its shapes", path);
  return front::stablehlo::to_graph(TRY(front::stablehlo::read_module(std::move(bytes), path)));
}

}  // namespace trine::tools
