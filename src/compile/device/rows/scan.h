// Running sums, products and extremes by Vector's scans, along the free dim; along another one blocks are transposed
// before and after. See ops/reduce/scan.cpp.
#pragma once

#include "compile/device/memory/store.h"

namespace trine::compile::device {

void lower_scan(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
