// The interpreter's kernels of 64-bit lanes compiled for AVX-512: eight to a vector, and instructions that AVX2 lacks.
// Called only where has_avx512_dq() says so; 32-bit lanes are machine code of vector/ as a rule, and stay with AVX2's.
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
#pragma clang attribute push(__attribute__((target("fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"))), \
                             apply_to = function)
#else
#pragma GCC target("fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")
#endif

#include "host/loops/kernels.h"

namespace trine::host {

namespace {

struct Avx512 {
  static constexpr bool kFma = true;
  static constexpr Simd kSimd = Simd::avx2;
};

LoopFn find(const LoopFnKey& key) {
  const LoopFn wide = Loops<Avx512>::find_wide(key);
  return wide ? wide : loop_kernels_avx2().find(key);
}
LoopFn accumulate(arch::LoopOp op, Lane lane) {
  const LoopFn wide = Loops<Avx512>::accumulate_wide(op, lane);
  return wide ? wide : loop_kernels_avx2().accumulate(op, lane);
}
LoopFn pair(arch::LoopOp op, Lane lane) { return find(Loops<Avx512>::pair_key(op, lane)); }

}  // namespace

const LoopKernels& loop_kernels_avx512() {
  static const LoopKernels kTable = [] {
    LoopKernels table = loop_kernels_avx2();
    table.find = find, table.accumulate = accumulate, table.pair = pair;
    return table;
  }();
  return kTable;
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
