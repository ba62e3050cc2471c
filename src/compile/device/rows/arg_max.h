// The largest of each part of a row, and where it is first met, by Vector's searches: parts on partitions.
// ops/reduce/arg_max_parts.cpp says what they are; how the parts of a row are joined is the graph's
// (decompose/largest.cpp).
#pragma once

#include <string>

#include "compile/device/memory/store.h"

namespace trine::compile::device {

std::string arg_max_obstacle(const ir::Node& node);
void lower_arg_max(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
