// From the graph to a Program for one core of a chip: the units of graph/fuse.h, each lowered to instructions over
// tiles, then addresses, order and semaphores (compile/stream). What has no lowering is named, with the reason and the
// line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "compile/device/choose/choose.h"
#include "compile/device/memory/memory_map.h"
#include "compile/device/multiplies/dot.h"
#include "compile/device/passes/split.h"
#include "compile/pass/pass.h"
#include "ir/graph.h"

namespace trine::compile {

struct DeviceOptions {
  device::DotPolicy dots = {};
  // Inputs that stay the same from call to call: kept in HBM as their multiplies want them, cast once at load.
  std::vector<bool> weights = {};
  // Of a unit with several variants, tells which ends first; without one the first variant is taken.
  device::Timer timer = nullptr;
};

// The ops that would run on the host, without compiling.
std::vector<HostOp> host_ops(const ir::Graph& graph, const arch::Chip& chip);

// What the device wants of an input: its format, and its order where it is a weight.
struct DeviceInput {
  Dtype dtype = Dtype::f32;
  std::optional<device::PanelLayout> panels = {};
};

struct DeviceProgram {
  arch::Program program = {};
  std::vector<DeviceInput> inputs = {};
};

// One part of a split graph: a program, or what the host runs between two of them.
struct DevicePart {
  bool on_host = false;
  DeviceProgram device = {};
  std::shared_ptr<const ir::Graph> host = {};
  std::vector<size_t> reads = {}, writes = {};  // as Part
  std::vector<ir::Type> written = {};           // types of what it writes
};

struct SplitProgram {
  std::vector<DevicePart> parts = {};
  std::vector<size_t> results = {};
  std::vector<HostOp> host = {};
  size_t inputs = 0;
  // The one program; null where the host runs parts of it.
  const DeviceProgram* only() const { return parts.size() == 1 && !parts[0].on_host ? &parts[0].device : nullptr; }
};
SplitProgram whole(DeviceProgram program, const ir::Graph& graph);  // of all of the graph

// The input as the program's tensor holds it.
Result<Tensor> prepare_input(const DeviceInput& input, const TensorView& given);

// Whoever looks on while a program is compiled.
struct DeviceObserver {
  PassObserver passes = {};
  std::function<void(size_t done, size_t all)> progress = {};  // units, while they are lowered
  device::MemoryMap* memory = nullptr;                         // filled once it is known
  std::vector<device::Chosen>* chosen = nullptr;               // the same
  int64_t hbm_room = 0;  // bytes; a program that wants more is an error. 0: the chip's own limit
};

// Inputs are the tensors arg0, arg1, …; outputs out0, out1, …
Result<DeviceProgram> compile_device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options = {},
                                     const DeviceObserver& observer = {});

// The same, with what the device does not compute left to the host. `compile`: compile_device, or a cache around it.
using CompilePart = std::function<Result<DeviceProgram>(const ir::Graph& graph, const DeviceOptions& options)>;
Result<SplitProgram> compile_split(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options,
                                   const CompilePart& compile);

}  // namespace trine::compile
