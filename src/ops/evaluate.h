// Runs graphs and regions by the ops' reference meanings: the referee, and the executor of whatever has no better one.
// Not fast. Collectives and device numbers are those of a program alone on one device.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "ops/op.h"

namespace trine::ops {

// The values a region sees of the graph around it.
using Environment = std::unordered_map<const ir::Node*, std::vector<Tensor>>;

class Evaluator {
 public:
  explicit Evaluator(const Environment& around) : around_(around) {}

  // The region's results for these arguments.
  Result<std::vector<Tensor>> run(const ir::Region& region, std::span<const Tensor> args);
  const Environment& around() const { return around_; }

 private:
  Environment around_;
};

Result<void> evaluate(const ir::Node& node, std::span<const TensorView> inputs, std::span<const TensorView> captures,
                      std::span<const TensorView> outputs);
Result<std::vector<Tensor>> evaluate(const ir::Graph& graph, std::span<const Tensor> args);

}  // namespace trine::ops
