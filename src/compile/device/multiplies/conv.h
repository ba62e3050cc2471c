// convolution on the tensor engine: a multiply whose contracted dims are the kernel's taps and channels, each tap the
// same operand a little further on. Padding is done before it (decompose/decompose.h).
#pragma once

#include "compile/device/multiplies/dot.h"

namespace trine::compile::device {

std::string conv_obstacle(const ir::Node& conv);
// As a product that is asked for block by block: windows of few channels, or shifted views; null where it is none.
std::unique_ptr<Product> product_of_conv(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy);

void lower_conv(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy);

}  // namespace trine::compile::device
