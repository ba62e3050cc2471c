// The vector engine's rows come from several files, by kind; vector.cpp joins them into one table.
#pragma once

#include <span>

#include "arch/row.h"

namespace trine::arch {

std::span<const Row> vector_elementwise_rows();

}  // namespace trine::arch
