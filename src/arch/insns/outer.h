// The tensor engine's arithmetic on plain floats: c[m][n] = Σ_k a[k][m]·b[k][n], summed in k order with one fused
// rounding per step, so that the portable and the AVX2 forms give the same bits (NaN payloads aside).
#pragma once

#include <cstdint>

namespace trine::arch {

// a is [k, m], b is [k, n], c is [m, n], all row major without gaps; c is overwritten.
void outer_product_sum(const float* a, const float* b, float* c, int k, int m, int n);
void outer_product_sum_portable(const float* a, const float* b, float* c, int k, int m, int n);

}  // namespace trine::arch
