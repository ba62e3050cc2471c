// Bulk conversion between number formats, at memory speed where the host has AVX2; see number.h for the formats.
#pragma once

#include <cstddef>

#include "base/number.h"

namespace trine {

void widen_row(const void* from, Dtype dtype, float* to, size_t n);
void round_row(const float* from, void* to, Dtype dtype, size_t n, Rounding& rounding);

}  // namespace trine
