// What ops with regions share: checks of a region's parameters and results, and tensors in and out of a run.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/shape.h"

namespace trine::ops {

// `what` names the region in messages.
Result<void> check_params(const ir::Region& region, std::span<const ir::Type> expected, std::string_view what);
Result<void> check_results(const ir::Region& region, std::span<const ir::Type> expected, std::string_view what);
std::vector<ir::Type> result_types(const ir::Region& region);
Inferred plain_types(std::span<const ir::Type> types);  // without layouts and shardings

// Copies of views, to hand to a region; tokens stay empty. And a region's results as those of the node.
std::vector<Tensor> owned(std::span<const TensorView> views, std::span<const ir::Type> types);
void put_results(const Eval& e, std::span<const Tensor> results);

}  // namespace trine::ops
