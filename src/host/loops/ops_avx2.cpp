// The interpreter's kernels compiled for AVX2 with FMA and F16C. Called only where simd_best() says avx2.
// The templates come after the pragma, so that they are compiled for it; their build type is this file's own.
#if defined(__x86_64__)
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/number/convert.h"
#include "base/number/element.h"
#include "host/loops/ops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#include "host/loops/kernels.h"

namespace trine::host {

namespace {

struct Avx2 {
  static constexpr bool kFma = true;
  static constexpr Simd kSimd = Simd::avx2;
};

}  // namespace

const LoopKernels& loop_kernels_avx2() { return Loops<Avx2>::kTable; }

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
