// The row loops of attention as one table of functions for each build.
#pragma once

#include <cstdint>

namespace trine::host {

struct AttentionKernels {
  float (*most)(const float* s, int64_t n);
  float (*exps)(float* s, int64_t n, float from);  // s = exp(s - from); their sum
  float (*dot)(const float* a, const float* b, int64_t n);
  void (*add_scaled)(float* to, const float* x, float scale, int64_t n);
  void (*multiply)(float* x, float scale, int64_t n);
};
const AttentionKernels& attention_kernels_avx2();  // only where simd_best() says avx2

}  // namespace trine::host
