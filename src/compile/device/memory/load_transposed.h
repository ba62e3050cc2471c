// Bringing rows of HBM to a loop that wants them as columns: neighbouring elements on neighbouring partitions. They
// would be fetched one by one; so rows come to the chip, 128 at a time, and are transposed there or on their way.
#pragma once

#include <optional>

#include "compile/device/memory/store.h"

namespace trine::compile::device {

// A dense tile of elements e0 + part × free; nothing where they do not lie so, or are too few to pay.
std::optional<View> by_blocks(Recorder& rec, Store& store, Memory& m, int64_t e0, const Axes& part, const Axes& free);

}  // namespace trine::compile::device
