// Rows of windows that a scatter combines, for processors with more than AVX2.
#pragma once

#include <cstdint>

#include "arch/plan/plan.h"

namespace trine::host {

using CombineBf16 = void (*)(uint16_t* to, const uint16_t* from, int64_t count);
CombineBf16 combine_bf16_avx512(arch::WindowKind kind);  // null where nothing is combined

}  // namespace trine::host
