// The host plan of a graph: what the native executor runs.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "arch/plan/plan.h"
#include "base/result.h"
#include "compile/graph/numerics.h"
#include "compile/pass/pass.h"
#include "ir/graph.h"

namespace trine::compile {

// Functions of the user's own on the host (custom_call "trine_host_call"), found by the call's backend_config when the
// program is planned. The plan keeps what is given; it runs at its position among the program's steps.
using HostFunction = std::function<Result<void>(std::span<const TensorView> in, std::span<const TensorView> out)>;
using FindHostFunction = std::function<Result<HostFunction>(std::string_view config)>;
inline constexpr std::string_view kHostCall = "trine_host_call";
inline constexpr std::string_view kPartsCall = ",parts";  // ends its config: called on each device, with its parts
inline constexpr std::string_view kInspection = "InspectSharding";  // jax.debug.inspect_array_sharding
// NKI kernels; their backend_config is arch::recording_bytes in base64.
inline constexpr std::string_view kKernelCall = "AwsNeuronCustomNativeKernel";

struct NativeOptions {
  FindHostFunction host_functions = {}, kernels = {};
  Numerics numerics = {};
  std::shared_ptr<const arch::PlanSource> source = {};  // the plan keeps it
  PassObserver observer = {};
};

// Simplified, fused, allocated. The way from a front-end's graph to the native executor.
Result<std::shared_ptr<const arch::HostPlan>> compile_native(const ir::Graph& graph, const NativeOptions& options = {});

// Only planned, as it is. The plan keeps the graph: steps without a kernel of their own call the op's reference meaning
// on its nodes. Planning may add nodes, for it alone.
Result<std::shared_ptr<const arch::HostPlan>> plan_native(std::shared_ptr<ir::Graph> graph,
                                                          const NativeOptions& options = {});

}  // namespace trine::compile
