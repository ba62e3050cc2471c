// The kernels a decoder's step needs over packed weights and KV pages: one table of functions per instruction set.
// Invariant: all sets give the same bits, and what a row gets does not depend on how many rows there are.
#pragma once

#include <cstdint>

#include "host/packed/matrix.h"

namespace trine::host {

// Rows of activations as whole numbers: 32 share a scale; sums of each half group, times the scale.
struct QuantisedRows {
  const int8_t* codes;  // rows × inputs
  const float* scales;  // rows × groups
  const float* sums;    // rows × groups × 2
  int64_t inputs;
};

// Keys lie as [dim][kPageTokens], values as [kPageTokens][dim], both f16, for one head and layer of a page.
inline constexpr int kPageTokens = 16;

// Some queries of one sequence that share a key head, over its pages.
struct PagedAttention {
  const float* const* queries;  // count, each `dim`
  float* const* outputs;
  const int32_t* positions;    // of each query; keys up to it are seen
  const float* const* biases;  // of each query's head, by key; null: none
  const float* sinks;          // of each query's head; null: none
  int count;
  int dim;                        // of queries and keys, a multiple of 16
  int value_dim;                  // of values and outputs, likewise
  const std::byte* const* pages;  // the first byte of this layer's and head's keys
  int64_t values_at;              // from there to its values, bytes
  float scale;
  float cap;       // of scores; 0: none
  int32_t window;  // keys seen; 0: all
  float* scratch;  // count × keys, whole pages
  int64_t scratch_stride;
};

enum class Activation : uint8_t { silu, gelu_tanh, gelu, relu, relu2, quick_gelu, tanh };

struct PackedKernels {
  void (*quantise)(const float* x, int64_t rows, int64_t inputs, int64_t stride, int8_t* codes, float* scales,
                   float* sums);
  // Tiles [first, last) of rows [row, row + rows): out[row * stride + output], written up to the last output.
  void (*multiply_codes)(const PackedMatrix& m, int64_t first, int64_t last, const QuantisedRows& a, int64_t row,
                         int64_t rows, float* out, int64_t stride);
  void (*multiply_floats)(const PackedMatrix& m, int64_t first, int64_t last, const float* x, int64_t x_stride,
                          int64_t row, int64_t rows, float* out, int64_t stride);
  // As multiply_codes, but that activations stay f32: a tile is written out, then multiplied. tile: inputs × kTile.
  void (*multiply_whole)(const PackedMatrix& m, int64_t first, int64_t last, const float* x, int64_t x_stride,
                         int64_t row, int64_t rows, float* out, int64_t stride, float* tile);
  void (*attend)(const PagedAttention& a);
  // y = x normed times scale (plus one, plus bias); centred: a layer norm.
  void (*norm)(const float* x, int64_t width, float eps, bool centred, bool plus_one, const float* scale,
               const float* bias, float* y);
  void (*activate)(Activation kind, float* x, const float* times,
                   int64_t count);                                     // times: null or what it is multiplied by
  void (*add)(float* x, const float* y, float factor, int64_t count);  // x += factor y
  void (*to_half)(const float* x, int64_t count, uint16_t* to);  // count: a multiple of 16; past f16's range: its end
  // The sum of exp(x - largest), sixteen partial sums in order.
  float (*exp_sum)(const float* x, int64_t count, float largest);
};

const PackedKernels& packed_kernels();  // of this processor

extern const PackedKernels kPackedPortable;
#if defined(__x86_64__)
extern const PackedKernels kPackedAvx2;
extern const PackedKernels kPackedAvx512;
#endif

}  // namespace trine::host
