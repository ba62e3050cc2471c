// A program's text run by the ops' reference meanings: read, verified, evaluated. For tests and for judging executors.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace trine::compile {

// Each argument is a parameter's bytes, elements as base/tensor.h keeps them. Tokens among the results are left out.
Result<std::vector<Tensor>> evaluate_text(std::string_view graph,
                                          std::span<const std::span<const std::byte>> arguments);

std::vector<std::string_view> op_names();

// Ops that others have too, by their own columns; see ops/op.h.
struct OpAbroad {
  std::string_view name = {};
  int inputs = 0;
  std::string_view onnx = {}, torch = {};
};
std::vector<OpAbroad> ops_abroad();

}  // namespace trine::compile
