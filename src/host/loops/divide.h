// Division of s64 by loops that become vector code, where the numbers of a part are small enough for f64: there is no
// vector division of integers. Included only by kernels.h. Invariant: exact, whatever the numbers are.
#pragma once

#include <bit>

#include "host/loops/lanes.h"
#include "host/loops/ops.h"

namespace trine::host {

template <class B>
struct DivideLoops {
  // Of numbers within 2^50: adding 1.5 * 2^52 turns integers into doubles and back, and a quotient that is no integer
  // is further from the next one than a double's rounding.
  static int64_t small_quotient(int64_t a, int64_t b) {
    constexpr double kMagic = 0x1.8p52;
    constexpr uint64_t kBits = 0x4338000000000000;
    const double x = std::bit_cast<double>(uint64_t(a) + kBits) - kMagic;
    const double y = std::bit_cast<double>(uint64_t(b) + kBits) - kMagic;
    return int64_t(std::bit_cast<uint64_t>(__builtin_trunc(x / y) + kMagic) - kBits);
  }
  static int64_t small_div(int64_t a, int64_t b) {
    const int64_t q = small_quotient(a, b == 0 ? 1 : b);
    return b == 0 ? -1 : q;
  }
  static int64_t small_rem(int64_t a, int64_t b) {
    const int64_t by = b == 0 ? 1 : b, r = int64_t(uint64_t(a) - uint64_t(small_quotient(a, by)) * uint64_t(by));
    return b == 0 ? a : r;
  }

  template <bool kA, bool kB, bool kIsRest>
  static void run(void* d, const void* a, const void* b, const void*, int64_t n, const LoopAux&) {
    using N = IntLane<B, int64_t>;
    constexpr int64_t kSmall = int64_t{1} << 50, kPart = 64;
    auto* to = static_cast<int64_t*>(d);
    auto *x = static_cast<const int64_t*>(a), *y = static_cast<const int64_t*>(b);
    const int64_t x0 = *x, y0 = *y;
    for (int64_t i = 0; i < n; i += kPart) {
      const int64_t m = n - i < kPart ? n - i : kPart;
      uint64_t past = 0;  // a bit that numbers of [-kSmall, kSmall) do not have
      for (int64_t j = i; j < i + m; ++j)
        past |= (uint64_t(kA ? x0 : x[j]) + kSmall) | (uint64_t(kB ? y0 : y[j]) + kSmall);
      if (past < 2 * uint64_t(kSmall)) {
#pragma GCC ivdep
        for (int64_t j = i; j < i + m; ++j) {
          const int64_t p = kA ? x0 : x[j], q = kB ? y0 : y[j];
          to[j] = kIsRest ? small_rem(p, q) : small_div(p, q);
        }
      } else {
        for (int64_t j = i; j < i + m; ++j) {
          const int64_t p = kA ? x0 : x[j], q = kB ? y0 : y[j];
          to[j] = kIsRest ? N::rem(p, q) : N::div(p, q);
        }
      }
    }
  }
  template <bool kIsRest>
  static LoopFn find(const LoopFnKey& k) {
    if (k.a_uniform) return k.b_uniform ? nullptr : run<true, false, kIsRest>;
    return k.b_uniform ? run<false, true, kIsRest> : run<false, false, kIsRest>;
  }
};

}  // namespace trine::host
