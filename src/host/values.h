// Rows of floating values to and from f32 as host tensors hold them: sub-byte values take a byte each.
// Chip formats go through base/convert's loops; the host's own 8-bit formats through a table.
#pragma once

#include <cstddef>

#include "base/number/number.h"
#include "base/simd.h"

namespace trine::host {

// n values of a floating dtype of at most 32 bits; rounding is to nearest even.
void widen_values(Dtype dtype, const void* from, float* to, size_t n, Simd simd);
void round_values(Dtype dtype, const float* from, void* to, size_t n, Simd simd);

}  // namespace trine::host
