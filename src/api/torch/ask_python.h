// What kernels ask of Python about torch's objects. A file of its own, so that those kernels are compiled without
// pybind11.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trine::api::neuron {

// The name of a tensor's class in Python, such as DTensor.
std::string class_of(const at::Tensor& t);

// Numbers in the job of a process group's members; nothing where it is of the host's.
std::optional<std::vector<int64_t>> ranks_of(const std::string& group);

}  // namespace trine::api::neuron
