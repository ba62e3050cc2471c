// Which vector instructions this processor runs. Every fast path has a portable twin with bit-equal results.
#pragma once

#include <cstdint>

namespace trine {

enum class Simd : uint8_t { portable, avx2 };  // avx2: with fma and f16c

Simd simd_best();  // decided once; TRINE_ISA=portable turns vector code off, for tests

// What goes beyond Simd::avx2 is no level of its own: the same bits in fewer instructions. TRINE_ISA=avx2 turns it off.
bool has_avx512();       // with bw
bool has_avx512_dq();    // with vl as well
bool has_avx512_bf16();  // and this

}  // namespace trine
