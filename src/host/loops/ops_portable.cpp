// The interpreter's kernels for any processor, and the choice among the builds.
#include "host/loops/kernels.h"

namespace trine::host {

namespace {

struct Portable {
  static constexpr bool kFma = false;
  static constexpr Simd kSimd = Simd::portable;
};

}  // namespace

const LoopKernels& loop_kernels_portable() { return Loops<Portable>::kTable; }

const LoopKernels& loop_kernels(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return has_avx512_dq() ? loop_kernels_avx512() : loop_kernels_avx2();
#endif
  (void)simd;
  return loop_kernels_portable();
}

Lane lane_of(Dtype type) {
  const DtypeRow& r = row(type);
  switch (r.kind) {
    case DtypeKind::floating:
      return r.bits == 64 ? Lane::f64 : Lane::f32;
    case DtypeKind::signed_int:
      return r.bits == 64 ? Lane::s64 : Lane::s32;
    case DtypeKind::unsigned_int:
      return r.bits == 64 ? Lane::u64 : Lane::u32;
    default:
      return Lane::mask;
  }
}

}  // namespace trine::host
