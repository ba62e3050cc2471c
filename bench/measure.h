// What the benchmarks of host/ share: a clock, this machine's fused multiply-add peak, and OpenBLAS where installed.
// With one thread the clock is the processor's, which other processes do not disturb; with more it is the wall's.
#pragma once

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "base/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trine {

inline double now() {
  timespec t = {};
  clock_gettime(pool_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// f32 multiply-adds in registers: 12 chains of 8, `steps` times.
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) inline void fma_chains(int64_t steps) {
  constexpr int kChains = 12;
  __m256 sum[kChains];
  for (auto& s : sum) s = _mm256_set1_ps(1);
  const __m256 x = _mm256_set1_ps(0.999f);
  for (int64_t i = 0; i < steps; ++i) {
    for (auto& s : sum) s = _mm256_fmadd_ps(s, x, x);
  }
  for (auto& s : sum) asm volatile("" ::"x"(s));
}
#else
inline void fma_chains(int64_t) {}
#endif

// GFLOP/s of all threads together.
inline double fma_peak() {
  constexpr int64_t kSteps = 100'000;
  const int threads = pool_threads(), parts = threads * 8;
  const double start = now();
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fma_chains(kSteps);
  });
  return double(parts) * kSteps * 12 * 8 * 2 / (now() - start) * 1e-9;
}

// Seconds a call of `call`, repeated to last about `seconds`.
template <class F>
double time_of(double seconds, F&& call) {
  double start = now();
  int64_t calls = 0;
  do {
    call();
    ++calls;
  } while (now() - start < seconds);
  return (now() - start) / double(calls);
}

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
inline Sgemm find_sgemm() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (!library) return nullptr;
  if (auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"))) set(pool_threads());
  return reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

}  // namespace trine
