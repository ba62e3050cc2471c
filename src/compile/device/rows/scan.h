// Running sums, products and extremes by Vector's scans, along the free dim; along another one blocks are turned before
// and after.
// running(x[G, n, C]) {kind, reverse}: of each element the combination of those before it along n, itself included;
// from the last one on where it is reversed.
#pragma once

#include "compile/device/memory/store.h"

namespace trine::compile::device {

inline constexpr std::string_view kRunning = "running";

void lower_running(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
