// Attention in the graph: softmax(q k^T * scale, masked) v as front-ends write it, with its transposes, masks by
// position, masks and biases in memory, and heads that share keys. What is found becomes one step.
// Invariant: nothing outside reads what happens inside. Sums stay f32 where the graph rounds between its multiplies.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arch/plan/plan.h"
#include "compile/graph/index_map.h"

namespace trine::compile {

// Dims of the weights that softmax gives, by what varies with them; -1: there is none of more than one element.
struct AttentionDims {
  int batch = -1, kv = -1;      // of queries, keys and values; kv is the head of keys
  int shared = -1, query = -1;  // of queries alone: heads that share one of keys, and positions
  int key = -1;
};

// A value that attention reads or writes: for each dim of the weights the value's own dim or -1, and the dim that is
// summed over, or that the result has of the values.
struct AttentionOperand {
  ir::Value value = {};
  std::vector<int> dims = {};
  int last = -1;
  ir::Value patch = {}, start = {};  // of keys and values: read as if updated with this, from there on along the keys
};

// A value on the way: for each of its dims the weights' own, as a map.
struct AttentionPart {
  ir::Value value = {};
  IndexMap map = {};
};

struct AttentionMatch {
  const ir::Node* root = nullptr;            // whose result this is: the second multiply, or a transpose of it
  std::vector<const ir::Node*> inside = {};  // done on the way, the root among them
  Dims space = {};                           // of the weights
  AttentionDims at = {};
  AttentionOperand q = {}, k = {}, v = {}, out = {};
  std::optional<AttentionOperand> bias = {};  // boolean: a mask
  std::optional<int64_t> back = {};           // the bias is this alone: query i sees keys from i - back on
  arch::AttentionStep step = {};              // all but strides and offsets
  // exp(s - max s) / sum, exp(s - max s), max s and the sum, and the mask where there is one.
  AttentionPart weights = {}, raised = {}, top = {}, sum = {}, mask = {};
  bool keeps_rows = false;  // top and sum are read by a gradient besides
  float cap = 0;            // if not 0, scores are scale * tanh(cap * q k^T) before bias and mask
  bool minus = false;       // the bias is taken away

  bool is_plain() const { return cap == 0 && !minus; }  // as AttentionStep has it

  std::vector<ir::Value> reads() const;
};

using NodeUsers = std::unordered_map<const ir::Node*, std::vector<const ir::Node*>>;
// The attention whose second multiply `dot` is, if it is one. `live_out`: must be in memory, though maybe unread.
std::optional<AttentionMatch> match_attention(const ir::Node& dot, const NodeUsers& users,
                                              const std::unordered_set<const ir::Node*>& live_out);

// The same where others may read what happens inside: what a gradient is found by.
std::optional<AttentionMatch> match_open_attention(const ir::Node& dot, const NodeUsers& users);

}  // namespace trine::compile
