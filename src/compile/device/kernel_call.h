// NKI kernels inside a graph (custom_call AwsNeuronCustomNativeKernel): their recorded instructions become part of the
// program, between those of the graph's own nodes.
#pragma once

#include "compile/device/memory/store.h"

namespace trine::compile::device {

std::string kernel_obstacle(const ir::Node& node);
void lower_kernel(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
