// Rows of windows that a scatter combines, for processors with AVX2 and more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/plan/plan.h"

namespace trine::host {

using CombineF32 = void (*)(float* to, const float* from, int64_t count);
CombineF32 combine_f32_avx2(arch::WindowKind kind);  // null where nothing is combined

// Rows of `count` each, one pair after the other: later ones may lie where earlier ones did.
struct RowPair {
  float* to = nullptr;
  const float* from = nullptr;
};
using CombineRowsF32 = void (*)(const RowPair* rows, size_t many, int64_t count);
CombineRowsF32 combine_rows_f32_avx2(arch::WindowKind kind);  // likewise

using CombineBf16 = void (*)(uint16_t* to, const uint16_t* from, int64_t count);
CombineBf16 combine_bf16_avx512(arch::WindowKind kind);  // likewise

}  // namespace trine::host
