// Which vector instructions this processor runs. Every fast path has a portable twin with bit-equal results.
#pragma once

#include <cstdint>

namespace trine {

enum class Simd : uint8_t { portable, avx2 };  // avx2: with fma and f16c

Simd simd_best();  // decided once; TRINE_ISA=portable turns vector code off, for tests

}  // namespace trine
