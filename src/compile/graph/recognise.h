// Functions that arrive taken apart: JAX hands on erfc as some sixty additions and multiplications.
// They are recognised by their values at chosen points, not by their coefficients, so another way to take them apart is
// known too. Rules for simplify.h's table.
#pragma once

#include <optional>

#include "ir/rewrite.h"

namespace trine::compile {

// select(|x| < 1, ..., ...) of f32 that is erfc(x), or erfc(-x), wherever it was tried.
ir::Replacement recognise_erfc(ir::Graph& graph, const ir::Node& node);

// Reductions of values with their indices that keep the largest or the least and its first index: a reduction of the
// values, and one of the indices where it is found. Both are loops that go along with others.
struct ArgMax {
  ir::Value values = {};
  int64_t along = 0;
  bool is_max = true;  // else the least
};
std::optional<ArgMax> match_argmax(const ir::Node& reduce);
ir::Replacement take_apart_argmax(ir::Graph& graph, const ir::Node& node);

// Does a sort put the least of its first operand, a float, first (true) or the greatest (false), whatever the others
// are? Zeros are equal; NaN is beyond infinity, or nothing is said of it.
std::optional<bool> sorts_upwards(const ir::Node& sort);

}  // namespace trine::compile
