// C[m, n] = A[m, k] B[k, n], for a batch of them: any strides, hence any transposes; B may be packed before.
// Floats of 8 to 32 bits, mixed as one likes, are summed in f32 and rounded to nearest even on store; s8, u8 and bool
// are summed exactly in s32; wider integers, f64 and complex numbers in their own format. Invariant: the same bits on
// any number of threads. Portable code has no fused multiply-add and may differ in the last.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "host/gemm/blocked.h"
#include "host/gemm/pack.h"

namespace trine::host {

struct Gemm {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a = {}, b = {};
  const PackedMatrix* packed_b = nullptr;  // instead of b: pack_b(b, k, n, batch), or batch 1 for all items
  struct Out {
    void* data = nullptr;  // null: the epilogue stores
    Dtype dtype = Dtype::f32;
    int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
  };
  Out c = {};
  Epilogue epilogue = {};
  int64_t row_base = 0;  // what the epilogue is told is the first row
  Simd simd = simd_best();
};
Result<void> gemm(const Gemm& g);

}  // namespace trine::host
