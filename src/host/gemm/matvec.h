// One row times a matrix that is not packed, read where it lies: packing would cost more than the multiply.
// Inside host/ only: gemm() decides. Invariant: bit-equal to the packed kernels, sum by sum in order of depth.
#pragma once

#include "host/gemm/gemm.h"

namespace trine::host {

bool runs_as_matvec(const Gemm& g);
void run_matvec(const Gemm& g, Family family, int64_t item);

// to[j] = sum over d < depth of a[d] * b[d * step + j * apart] for j < n, in order of d. One of step, apart is 1.
template <class T>
using VecTimesMatrix = void (*)(const T* a, const T* b, int64_t step, int64_t apart, int64_t depth, int64_t n, T* to);
VecTimesMatrix<float> vec_times_f32_avx2();  // only where simd_best() says avx2
VecTimesMatrix<double> vec_times_f64_avx2();

}  // namespace trine::host
