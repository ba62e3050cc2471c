// The gradient of attention in the graph, as front-ends derive it: weights that the forward pass would have to keep
// over the whole step become one op that makes them again from queries, keys and two numbers a row.
//   attention_gradient(q, k, v, out, gradient of out, top, sum[, bias]) -> gradients of q, k and v
// See ops/network/attention_gradient.cpp.
#pragma once

#include "compile/graph/attention.h"
#include "ir/graph.h"

namespace trine::compile::device {

// The same graph with every such gradient as one op. `takes`: which attentions the device computes whole.
ir::Graph with_attention_gradients(const ir::Graph& graph, bool (*takes)(const AttentionMatch&));

}  // namespace trine::compile::device
