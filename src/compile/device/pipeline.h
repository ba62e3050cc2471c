// The device's pipeline: a canonical graph becomes a recorded kernel of one core. First graph to graph, until every op
// has a lowering; then units, and their instructions.
// Invariant: the graph in hand is not replaced once `fuse` has run: units and lowering point into it.
#pragma once

#include <memory>
#include <vector>

#include "compile/device/device.h"
#include "compile/device/lower.h"
#include "compile/graph/pipeline.h"

namespace trine::compile::device {

// A graph lowered, and its program where that was made already.
struct Lowered {
  Lowering lowering;
  std::vector<DeviceInput> inputs = {};
  std::optional<arch::Program> program = {};

  Lowered(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options)
      : lowering(graph, chip, options) {}
};

struct DeviceState {
  CurrentGraph graph;
  const arch::Chip& chip;
  const DeviceOptions& options;
  DeviceObserver observer = {};

  Fusion fusion = {};
  std::unique_ptr<Lowered> lowered = {};
  MemoryMap memory = {};
};

const Pipeline<DeviceState>& device_pipeline();

}  // namespace trine::compile::device
