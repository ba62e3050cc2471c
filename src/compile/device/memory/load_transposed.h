// Between rows of HBM and a loop that has them as columns: neighbouring elements on neighbouring partitions. They
// would go one by one; so rows go, 128 at a time, and are transposed on the chip or on their way.
#pragma once

#include <optional>

#include "compile/device/memory/store.h"

namespace trine::compile::device {

// A dense tile of elements e0 + part × free; nothing where they do not lie so, or are too few to pay.
std::optional<View> by_blocks(Recorder& rec, Store& store, Memory& m, int64_t e0, const Axes& part, const Axes& free);
// A tile of elements e0 + part × free, stored by its columns; false, and nothing done, where they are no rows of HBM.
bool store_by_rows(Recorder& rec, Store& store, const Memory& m, int64_t e0, const Axes& part, const Axes& free,
                   View tile);

}  // namespace trine::compile::device
