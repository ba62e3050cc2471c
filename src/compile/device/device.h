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
  // Inputs that stay the same from call to call: kept in HBM as their multiplies want them, cast once at load.
  std::vector<bool> weights = {};
};

// A node that stays on the host.
struct HostPlaced {
  std::string op = {}, type = {}, reason = {}, where = {};
};

// Where each op would run, without compiling.
std::vector<HostPlaced> host_placed(const ir::Graph& graph);

// What the device wants of an input: its format, and its order where it is a weight.
struct DeviceInput {
  Dtype dtype = Dtype::f32;
  std::optional<device::PanelLayout> panels = {};
};

struct DeviceProgram {
  arch::Program program = {};
  std::vector<DeviceInput> inputs = {};
};

// The input as the program's tensor holds it.
Result<Tensor> prepare_input(const DeviceInput& input, const TensorView& given);

// Inputs are the tensors arg0, arg1, …; outputs out0, out1, …
Result<DeviceProgram> compile_device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options = {});

}  // namespace trine::compile
