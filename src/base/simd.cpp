// Processor detection.
#include "base/simd.h"

#include <cstdlib>
#include <cstring>

namespace trine {

Simd simd_best() {
#if defined(__x86_64__)
  static const bool avx2 = [] {
    const char* asked = std::getenv("TRINE_ISA");
    if (asked && std::strcmp(asked, "portable") == 0) return false;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  }();
  return avx2 ? Simd::avx2 : Simd::portable;
#else
  return Simd::portable;
#endif
}

}  // namespace trine
