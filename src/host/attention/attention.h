// softmax(q k^T * scale + bias) v, without the scores ever leaving the cache: keys are met block by block, and a row's
// running maximum and sum are corrected as it goes. Any strides; several query heads may share a head of keys and
// values. Floats of up to 32 bits; all sums are f32, and only the result is rounded. Not the gradient. Invariant: the
// same bits on any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "arch/plan/plan.h"
#include "base/result.h"
#include "base/simd.h"

namespace trine::host {

struct Attention {
  int64_t batch = 1, heads = 1, kv_heads = 1;  // kv_heads divides heads
  int64_t queries = 0, keys = 0, dim = 0, value_dim = 0;
  float scale = 1;

  // Positions [first, first + count) that lie elsewhere: what a cache is about to be updated with. Only for few rows.
  struct Patch {
    const void* data = nullptr;
    int64_t first = 0, count = 0;
    int64_t batch_stride = 0, head_stride = 0, seq_stride = 0, dim_stride = 1;
  };
  // Strides in elements.
  struct Tensor {
    const void* data = nullptr;
    Dtype dtype = Dtype::f32;
    int64_t batch_stride = 0, head_stride = 0, seq_stride = 0, dim_stride = 1;
    Patch patch = {};  // of keys and values
  };
  Tensor q = {}, k = {}, v = {};
  struct Out {
    void* data = nullptr;
    Dtype dtype = Dtype::f32;
    int64_t batch_stride = 0, head_stride = 0, seq_stride = 0, dim_stride = 1;
  };
  Out out = {};

  // Query i sees keys up to i + causal_offset; with a cache of past keys that is keys - queries.
  bool causal = false;
  int64_t causal_offset = 0;
  // Added to the scores, or, of dtype bool, where they count: elsewhere they become `masked`. Strides of 0 repeat.
  struct Bias {
    const void* data = nullptr;
    Dtype dtype = Dtype::f32;
    int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 1;
  };
  Bias bias = {};
  float masked = -0x1p127f;
  Simd simd = simd_best();
};

Result<void> attention(const Attention& a);

// A host plan's attention.
Result<void> run_attention(const arch::AttentionStep& step, std::span<const TensorView> in, const TensorView& out);

}  // namespace trine::host
