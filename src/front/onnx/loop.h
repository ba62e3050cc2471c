// Loops of a known kind as one `while`: carried values, and values collected at each step into one tensor.
#pragma once

#include <functional>

#include "front/onnx/build.h"

namespace trine::front::onnx {

struct Step {
  Value go_on = {};  // bool; null: always
  Values carried = {}, collected = {};
};

struct Loop {
  int64_t iterations = -1;  // -1: only `limit` or `go_on` ends it
  Value limit = {};         // s64; null: iterations is all there is
  Value go_on = {};         // bool, before the first step; null: true
  Values carried = {};
  // The step number and the values carried into the step.
  std::function<Result<Step>(Value number, const Values& carried)> step = {};
};

// What is carried out of the last step, then what was collected, each with a new first dim of `iterations`.
Result<Values> run_loop(Build& b, const Loop& loop);

// x[..., number, ...] without the axis.
Made at_step(Build& b, Value x, int axis, Value number);

}  // namespace trine::front::onnx
