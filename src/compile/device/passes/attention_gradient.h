// The gradient of attention in the graph, as front-ends derive it: weights that the forward pass would have to keep
// over the whole step become one op that makes them again from queries, keys and two numbers a row.
//   attention_gradient(q, k, v, out, gradient of out, top, sum[, bias]) -> gradients of q, k and v
// top and sum: of each row of scores the highest, and the sum of exp(score - top). Attributes say which dims are what.
#pragma once

#include "compile/graph/attention.h"
#include "ir/graph.h"

namespace trine::compile::device {

// Which inputs and results an attention_gradient has, in order, by the names of the attributes with their dims.
inline constexpr std::string_view kGradientInputs[] = {"q", "k", "v", "out", "gradient", "top", "sum", "bias"};
inline constexpr std::string_view kGradientResults[] = {"dq", "dk", "dv"};
inline constexpr std::string_view kGradientFactors[] = {"dq_factor", "dk_factor", "dv_factor"};
inline constexpr size_t kTopInput = 5, kSumInput = 6, kBiasInput = 7;

// The same graph with every such gradient as one op. `takes`: which attentions the device computes whole.
ir::Graph with_attention_gradients(const ir::Graph& graph, bool (*takes)(const AttentionMatch&));

}  // namespace trine::compile::device
