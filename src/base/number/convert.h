// Bulk conversion between number formats, whole buffers and contiguous rows.
// Not strided access: callers walk their patterns and hand over rows. Buffers must not overlap.
// Invariant: both paths give, bit for bit, what the rows of base/number/number.h define.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/number/number.h"
#include "base/result.h"
#include "base/simd.h"

namespace trine {

// n elements from or to f32. Sub-byte rows start at a byte and pack two a byte, low nibble first; an odd last
// element leaves the high nibble zero. Neither takes packed carriers.
void widen_row(const void* from, Dtype dtype, float* to, size_t n);
void round_row(const float* from, void* to, Dtype dtype, size_t n, Rounding& rounding);  // advances rounding by n

// Any dtype to any other. Floats go through f32, as the chip casts; integers among themselves saturate exactly.
// A packed carrier converts only to itself.
Result<void> convert(std::span<const std::byte> from, Dtype from_dtype, std::span<std::byte> to, Dtype to_dtype,
                     Rounding rounding = {}, Simd simd = simd_best());

// The loops behind a row. `random` holds a word per element, or is null for nearest even.
using WidenLoop = void (*)(const void* from, float* to, size_t n);
using RoundLoop = void (*)(const float* from, void* to, size_t n, const uint32_t* random);
struct RowKernels {
  WidenLoop widen = nullptr;
  RoundLoop round = nullptr;
};
const RowKernels& row_kernels(Dtype dtype, Simd simd);  // both null for packed carriers and what no chip has

}  // namespace trine
