// Forms of elementwise arithmetic that one instruction computes: gelu (by erf or tanh), silu, a value at one index of a
// row.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_set>

#include "ir/graph.h"

namespace trine::compile::device {

struct Activated {
  std::string_view act = {};  // the activation's name
  ir::Value input = {};
};

// The node as one activation of one value; every node between them is of `members`.
std::optional<Activated> match_activation(const ir::Node& node, const std::unordered_set<const ir::Node*>& members);

// Where counting along the free dims reaches a number of the row: 1 or `value` there, 0 elsewhere.
struct OneHot {
  ir::Value count = {}, at = {}, value = {};
};
std::optional<OneHot> match_one_hot(const ir::Node& node, const std::unordered_set<const ir::Node*>& members);

}  // namespace trine::compile::device
