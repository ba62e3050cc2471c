// The graph in parts that run one after the other, on the device or on the host: what the device does not compute
// goes to the host with as little around it as the order allows.
#pragma once

#include <string>
#include <vector>

#include "arch/chips/chip.h"
#include "ir/graph.h"

namespace trine::compile {

// A node that stays on the host.
struct HostOp {
  std::string op = {}, type = {}, reason = {}, where = {};
};

// Values that go between parts have numbers: first the graph's parameters, then what parts write.
struct Part {
  bool on_host = false;
  ir::Graph graph = {};  // its parameters are `reads`, its results `writes`
  std::vector<size_t> reads = {}, writes = {};
};

struct Split {
  std::vector<Part> parts = {};
  std::vector<size_t> results = {};  // of the graph
  std::vector<HostOp> host = {};     // why there is more than one part
};

// graph: simplified. One part where the device computes all of it.
Split split(const ir::Graph& graph, const arch::Chip& chip);

}  // namespace trine::compile
