// The inner loops of attention as one table of functions for each build. Blocks of scores and sums lie with 16 queries
// side by side: x[i][16], so that softmax runs down the columns.
#pragma once

#include <cstdint>

namespace trine::host {

struct AttentionKernels {
  void (*most)(const float* s, int64_t n, float* top);                // top[16] = max(top, each of n rows)
  void (*exps)(float* s, int64_t n, const float* top, float* total);  // s = exp(s - top); total += s
  void (*scale)(float* x, int64_t n, const float* by);                // x *= by[16]
  // out[j] = q . k[j] of n rows of k, `stride` apart.
  void (*dots)(const float* q, const float* k, int64_t stride, int64_t n, int64_t dim, float* out);
  // sums += the sum of p[j] * v[j] over n rows of v.
  void (*weigh)(const float* p, const float* v, int64_t stride, int64_t n, int64_t dim, float* sums);
  void (*add_scaled)(float* to, const float* x, float by, int64_t n);  // to += x * by
};
const AttentionKernels& attention_kernels_avx2();  // only where simd_best() says avx2

}  // namespace trine::host
