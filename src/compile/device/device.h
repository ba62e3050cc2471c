// From the graph to a Program for one core of a chip: the units of fuse.h, each lowered to instructions over tiles,
// then places, order and semaphores (compile/stream). What has no lowering is named, with the reason and the line.
#pragma once

#include <string>
#include <vector>

#include "arch/chip.h"
#include "arch/program.h"
#include "compile/device/dot.h"
#include "ir/graph.h"

namespace trine::compile {

struct DeviceOptions {
  device::DotPolicy dots = {};
};

// A node that stays on the host.
struct HostPlaced {
  std::string op = {}, type = {}, reason = {}, where = {};
};

// Where each op would run, without compiling.
std::vector<HostPlaced> host_placed(const ir::Graph& graph);

// Inputs are the tensors arg0, arg1, …; outputs out0, out1, …
Result<arch::Program> compile_device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options = {});

}  // namespace trine::compile
