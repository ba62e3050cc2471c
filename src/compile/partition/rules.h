// How an op can be cut over devices: its dims as factors. Dims that share a factor are cut alike; a factor that is
// reduced leaves partial results, which devices combine. A dim without a factor must be whole; so must one whose factor
// is carried (a sort's), but the result is wanted as the input lies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace trine::compile {

inline constexpr int kWhole = -1;

struct Factor {
  int64_t size = 1;            // a count of parts must divide it
  std::string reduction = {};  // "add", "maximum" ...: cut, it leaves partial results
  bool is_carried = false;     // whole while the op runs
};

struct OpRule {
  std::vector<Factor> factors = {};
  std::vector<std::vector<int>> inputs = {}, results = {};  // per value and dim: a factor, or kWhole
  bool inputs_first = false;                                // the inputs decide before what the result is wanted as

  int add(int64_t size, std::string reduction = {});
  int carry(int64_t size);
};

// Empty where nothing is known: every input must be whole. Collectives are cut within a manual part only, along the
// dims that they do not join or split.
std::optional<OpRule> rule_of(const ir::Node& node, bool is_manual = false);

// The node for parts: attributes and result types, with each factor's size divided by its count.
struct LocalForm {
  ir::Attrs attrs = {};
  std::vector<ir::Type> types = {};
};
LocalForm local_form(const ir::Node& node, const OpRule& rule, const std::vector<int64_t>& counts);

}  // namespace trine::compile
