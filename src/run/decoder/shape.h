// What a decoder is, as far as one step of it needs to know: the settings of python/trine/models/settings.py in
// numbers. Not its weights. Invariant after check(): sizes are positive and fit together.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/packed/kernels.h"

namespace trine::run {

enum class Block : uint8_t { pre, parallel, post, normed, sandwich };
enum class Mixer : uint8_t { attention, latent, convolution, state, recurrence, both };

struct LayerShape {
  int32_t window = 0;   // keys a query sees; 0: all
  int32_t rope = -1;    // which of the tables turns queries and keys; -1: none
  int32_t ffn = 0;      // inner width of its MLP, or of each of its experts; 0: a mixer alone
  int32_t experts = 0;  // 0: one MLP for all tokens
  Mixer mixer = Mixer::attention;

  bool attends() const { return mixer == Mixer::attention || mixer == Mixer::latent || mixer == Mixer::both; }
  bool keeps_state() const { return mixer != Mixer::attention && mixer != Mixer::latent; }
};

struct RopeTable {
  int32_t pairs = 0;            // of dims that turn; the i-th turns with the one `pairs` after it
  std::vector<float> cos, sin;  // context × pairs
};

// How a token chooses its experts.
struct RouterShape {
  enum class Kind : uint8_t { softmax, sigmoid, mixer } kind = Kind::softmax;
  int32_t chosen = 0;            // experts of a token
  bool normed = true;            // weights of the chosen add up to one
  float scale = 1;               // of the weights
  int32_t groups = 0, best = 0;  // of experts, and how many of them may be chosen from; 0: no groups
  int32_t of_group = 1;          // experts whose scores, added up, are a group's
  float jitter = 0;              // mixer: how near a rival must be to share
};

// Attention over one narrow vector per token (MLA): what pages hold is that vector and the turned part of the key.
struct LatentShape {
  int32_t rank = 0;  // of that vector; 0: plain attention
  int32_t rotated = 0, still = 0, values = 0;
  int32_t q_rank = 0;  // queries are made of a narrower vector, too; 0: of the state itself
};

// Mamba: numbers that decay and are added to with every token. Kind 1: rates per channel, kind 2: one per head.
struct SpaceShape {
  int32_t kind = 0, inner = 0, state = 0, kernel = 0, heads = 1, groups = 1, rank = 0, norm_groups = 1;
  bool normed = true, gate_last = false, inner_norms = false;
  float least = 0, most = std::numeric_limits<float>::infinity();  // of a step
  std::array<float, 5> scales{1, 1, 1, 1, 1};                      // of gate, channels, in, out, step
};

struct DecoderShape {
  int32_t width = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, context = 0;
  int32_t embed = 0;  // width of the embedding, where it is not the stack's; 0: it is
  std::vector<LayerShape> layers;
  std::vector<RopeTable> ropes;
  std::vector<float> biases;  // alibi: heads × context, what a key's position adds to a score
  Block block = Block::pre;
  int32_t norms = 2;      // of a parallel block: 1 is shared
  bool centred = false;   // layer norms
  bool plus_one = false;  // norms times one more than their scale
  float eps = 1e-5f;
  std::string qk_norm;  // "", head, whole, own (a head has its own scale), after (turned first)
  host::Activation activation = host::Activation::silu;
  bool gated = true;
  float embed_scale = 1, head_scale = 1, residual = 1, logit_cap = 0, score_cap = 0, score_scale = 0;
  float clip = 0;               // of what queries, keys and values may be; 0: anything
  float gate_limit = 0;         // gate and up are cut there, and one is added to up; 0: they are not
  int32_t position_offset = 0;  // of learned positions
  RouterShape router;
  LatentShape latent;
  SpaceShape space;
  int32_t kernel = 0, recurrent = 0;               // of convolutions and recurrences: tokens seen, channels
  std::array<float, 3> attention_scales{1, 1, 1};  // of what goes into attention, comes out, and of a state beside it
  std::array<float, 2> mlp_scales{1, 1};           // of the gate before its activation, of what comes out
  bool whole_activations = false;                  // multiplied as f32 by packed weights; else as int8, 32 to a scale

  Result<void> check() const;
  int32_t key_dim() const { return latent.rank ? latent.rank + latent.rotated : head_dim; }
  int32_t value_dim() const { return latent.rank ? latent.rank : head_dim; }
  int32_t key_heads() const { return latent.rank ? 1 : kv_heads; }
  bool keeps_state() const;               // some layer has more than keys and values to go on from
  int64_t state_at(size_t layer) const {  // inside what a page has of a layer
    return layers[layer].attends() ? int64_t(key_heads()) * head_bytes() : 0;
  }
  int64_t state_floats(size_t layer) const;  // that a page has of a layer besides keys and values
  int64_t layer_bytes(size_t layer) const { return state_at(layer) + state_floats(layer) * 4; }
  int64_t page_bytes() const;
  int64_t values_at() const { return int64_t(key_dim()) * host::kPageTokens * 2; }  // f16 keys, then f16 values
  int64_t head_bytes() const { return values_at() + int64_t(value_dim()) * host::kPageTokens * 2; }
};

}  // namespace trine::run
