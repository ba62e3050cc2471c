// What module.cpp adds to trine._torch for process groups.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace trine::api::neuron {

void bind_group(pybind11::module_& m);

}  // namespace trine::api::neuron
