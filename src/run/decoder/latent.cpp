// Attention over one narrow vector per token (MLA), in the form that makes nothing of what is kept: queries are brought
// into the vector's space, and what they see of it is brought out again. Invariant: a row's work is its own.
#include <algorithm>

#include "base/pool.h"
#include "run/decoder/decoder.h"

namespace trine::run {

using host::packed_kernels;

namespace {

constexpr float kInnerEps = 1e-6f;  // of the norms inside, whatever the configuration says of the others

}  // namespace

// wide_q_: of each row and head the query in the vector's space, and its rotary part.
void Decoder::latent_queries(std::span<const TokenRun> runs, int index, const float* x) {
  const Layer& l = layers_[size_t(index)];
  const LatentShape& s = shape_.latent;
  const int64_t rows = int64_t(rows_.size()), dim = shape_.head_dim, wide = shape_.key_dim(), heads = shape_.heads;
  if (s.q_rank) {
    narrow_q_.resize(size_t(rows * s.q_rank));
    project(runs, {{&l.q_down, narrow_q_.data()}}, x, shape_.width);
    for (int64_t i = 0; i < rows; ++i) {
      float* q = narrow_q_.data() + i * s.q_rank;
      packed_kernels().norm(q, s.q_rank, kInnerEps, false, false, l.q_norm.scale->data(), nullptr, q);
    }
    project(runs, {{&l.q, q_.data()}}, narrow_q_.data(), s.q_rank);
  } else {
    project(runs, {{&l.q, q_.data()}}, x, shape_.width);
  }
  wide_q_.resize(size_t(rows * heads * wide));
  const int32_t rope = shape_.layers[size_t(index)].rope;
  parallel_for(heads, 1, [&](int64_t begin, int64_t end) {
    host::MultiplyScratch scratch;  // unused: these weights are floats
    for (int64_t h = begin; h < end; ++h) {
      const host::Times up{l.k_up[size_t(h)].w, wide_q_.data() + h * wide, heads * wide};
      host::multiply({&up, 1}, q_.data() + h * dim, rows, s.still, heads * dim, scratch);
      for (int64_t i = 0; i < rows; ++i) {
        float* rotary = wide_q_.data() + (i * heads + h) * wide + s.rank;
        std::copy_n(q_.data() + (i * heads + h) * dim + s.still, s.rotated, rotary);
        if (rope >= 0) rotate(rotary, 1, 0, shape_.ropes[size_t(rope)], rows_[size_t(i)].position);
      }
    }
  });
}

void Decoder::latent(std::span<const TokenRun> runs, int index, const float* x, float* y, KvMemory& kv) {
  const Layer& l = layers_[size_t(index)];
  const LatentShape& s = shape_.latent;
  const int64_t rows = int64_t(rows_.size()), wide = shape_.key_dim(), heads = shape_.heads;
  latent_queries(runs, index, x);
  project(runs, {{&l.kv_down, k_.data()}}, x, shape_.width);
  const int32_t rope = shape_.layers[size_t(index)].rope;
  for (int64_t i = 0; i < rows; ++i) {
    float* k = k_.data() + i * wide;
    packed_kernels().norm(k, s.rank, kInnerEps, false, false, l.kv_norm.scale->data(), nullptr, k);
    if (rope >= 0) rotate(k + s.rank, 1, 0, shape_.ropes[size_t(rope)], rows_[size_t(i)].position);
    put(runs, rows_[size_t(i)], index, k, k, kv);
  }
  attend(runs, index, kv);
  mixed_.resize(size_t(rows * heads * s.values));
  parallel_for(heads, 1, [&](int64_t begin, int64_t end) {
    host::MultiplyScratch scratch;
    for (int64_t h = begin; h < end; ++h) {
      const host::Times out{l.v_up[size_t(h)].w, mixed_.data() + h * s.values, heads * s.values};
      host::multiply({&out, 1}, a_.data() + h * s.rank, rows, s.rank, heads * s.rank, scratch);
    }
  });
  project(runs, {{&l.o, y}}, mixed_.data(), heads * s.values);
}

}  // namespace trine::run
