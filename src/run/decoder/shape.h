// What a decoder is, as far as one step of it needs to know: the settings of python/trine/models/settings.py in
// numbers. Not its weights. Invariant after check(): sizes are positive and fit together.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/packed/kernels.h"

namespace trine::run {

enum class Block : uint8_t { pre, parallel, post, normed, sandwich };

struct LayerShape {
  int32_t window = 0;  // keys a query sees; 0: all
  int32_t rope = -1;   // which of the tables turns queries and keys; -1: none
};

struct RopeTable {
  int32_t pairs = 0;            // of dims that turn; the i-th turns with the one `pairs` after it
  std::vector<float> cos, sin;  // context × pairs
};

struct DecoderShape {
  int32_t width = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0, context = 0;
  std::vector<LayerShape> layers;
  std::vector<RopeTable> ropes;
  std::vector<float> slopes;  // alibi, of each head
  Block block = Block::pre;
  int32_t norms = 2;      // of a parallel block: 1 is shared
  bool centred = false;   // layer norms
  bool plus_one = false;  // norms times one more than their scale
  float eps = 1e-5f;
  std::string qk_norm;  // "", head, whole
  host::Activation activation = host::Activation::silu;
  bool gated = true;
  float embed_scale = 1, head_scale = 1, residual = 1, logit_cap = 0, score_cap = 0, score_scale = 0;
  int32_t position_offset = 0;  // of learned positions

  Result<void> check() const;
  int64_t page_bytes() const { return int64_t(layers.size()) * kv_heads * head_bytes(); }
  int64_t head_bytes() const { return int64_t(head_dim) * host::kPageTokens * 2 * 2; }  // f16 keys and values
};

}  // namespace trine::run
