// attention_gradient on the device: tiles of weights made again and never stored, gradients summed on chip.
#pragma once

#include "compile/device/multiplies/dot.h"

namespace trine::compile::device {

void lower_attention_gradient(Recorder& rec, Store& store, const ir::Node& node, const DotPolicy& policy);

}  // namespace trine::compile::device
