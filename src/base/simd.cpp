// Processor detection.
#include "base/simd.h"

#include <cstdlib>
#include <cstring>

namespace trine {

namespace {

bool is_asked(const char* isa) {
  const char* asked = std::getenv("TRINE_ISA");
  return asked && std::strcmp(asked, isa) == 0;
}

}  // namespace

Simd simd_best() {
#if defined(__x86_64__)
  static const bool avx2 = [] {
    if (is_asked("portable")) return false;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  }();
  return avx2 ? Simd::avx2 : Simd::portable;
#else
  return Simd::portable;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  static const bool has = simd_best() == Simd::avx2 && !is_asked("avx2") && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw");
  return has;
#else
  return false;
#endif
}

bool has_avx512_dq() {
#if defined(__x86_64__)
  static const bool has = has_avx512() && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has;
#else
  return false;
#endif
}

bool has_avx512_bf16() {
#if defined(__x86_64__)
  static const bool has = has_avx512_dq() && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

}  // namespace trine
