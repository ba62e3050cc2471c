// The row loops of attention compiled for AVX2 with FMA. Called only where simd_best() says avx2.
// The templates come after the pragma, so that they are compiled for it; their build type is this file's own.
#if defined(__x86_64__)
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "host/attention_kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#include "host/attention_rows.h"

namespace trine::host {

namespace {

struct AttentionAvx2 {
  static constexpr bool kFma = true;
};

}  // namespace

const AttentionKernels& attention_kernels_avx2() { return AttentionRows<AttentionAvx2>::kTable; }

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
