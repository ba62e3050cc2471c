// dot_general on the tensor engine: panels of both operands with the contracted dim on partitions, accumulated in PSUM.
#pragma once

#include <optional>
#include <string>

#include "compile/device/store.h"

namespace trine::compile::device {

// What a multiply reads operands as; nothing: as the graph says.
struct DotPolicy {
  std::optional<Dtype> cast = {};
};

std::string dot_obstacle(const ir::Node& dot);

// out: the value to make, the dot itself or a transpose of it. turned: its minor dim goes to partitions where it can.
void lower_dot(Recorder& rec, Store& store, const ir::Node& dot, const ir::Node& out, bool turned,
               const DotPolicy& policy);

}  // namespace trine::compile::device
