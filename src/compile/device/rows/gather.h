// Elements of rows at indices that data gives, by GpSimd: each partition gathers from the row it holds. Rows that data
// chooses as a whole are memory/windows.h's.
#pragma once

#include <string>

#include "compile/device/memory/store.h"

namespace trine::compile::device {

// Rows of so many elements fit a partition, and looking through all of them takes no longer than finding each alone.
bool gathers_in_rows(const ir::Type& x, int64_t columns, int64_t each);
std::string row_gather_obstacle(const ir::Node& node);
void lower_row_gather(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
