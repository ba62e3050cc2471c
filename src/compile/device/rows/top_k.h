// top_k by Vector's searches: eight of a row at a time, rows on partitions. What it does not take is decomposed
// (decompose/order.cpp, decompose/largest.cpp). A NaN is never among the largest, and zeros are equal.
#pragma once

#include "compile/device/memory/store.h"

namespace trine::compile::device {

bool takes_top_k(const ir::Node& node);
void lower_top_k(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
