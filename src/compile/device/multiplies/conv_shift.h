// Convolutions as shifted multiplies: channels on partitions, an image with its padding along the free dim, every tap a
// view of it that begins a little further on. Nothing is copied per tap.
#pragma once

#include "compile/device/multiplies/dot.h"

namespace trine::compile::device {

// Two spatial dims, no groups or one for each channel, no dilated input, channels enough to fill partitions, first or
// last in both operands. Such a convolution keeps its padding; all others have it done before (decompose/decompose.h).
bool can_shift(const ir::Node& conv);
void lower_shifted(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy);
// The same asked for block by block, features on partitions; nothing where they are not the minor dim.
std::unique_ptr<Product> product_of_shifted(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy);

}  // namespace trine::compile::device
