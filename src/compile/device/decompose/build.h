// Make: short ways to write nodes of a graph, for decompositions. What the ops refuse is our own bug.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op.h"

namespace trine::compile::device {

using Values = std::vector<ir::Value>;

class Make {
 public:
  Make(ir::Graph& graph, uint32_t where) : graph_(graph), where_(where) {}

  ir::Value op(ir::OpId op, Values inputs, ir::Attrs attrs = {}, std::vector<ir::Type> types = {},
               std::vector<ir::Region> regions = {});
  // Two values by a reduction's kind.
  ir::Value combine(std::string_view kind, Values inputs) { return op(ir::op_named(kind), std::move(inputs)); }
  // A node that only the device compiler knows.
  ir::Value own(ir::OpId op, Values inputs, ir::Type type, ir::Attrs attrs) {
    return graph_.add1(op, std::move(inputs), std::move(type), std::move(attrs), where_);
  }

  ir::Value number(Dtype dtype, double value, const Dims& dims = {});  // integers up to 2^53
  ir::Value lowest(Dtype dtype, bool highest = false);                 // the identity of maximum, or of minimum
  ir::Value iota(Dtype dtype, const Dims& dims, int64_t dim);
  ir::Value cast(const ir::Value& x, Dtype dtype);
  ir::Value bits(const ir::Value& x, Dtype dtype);  // the same bits
  ir::Value reshape(const ir::Value& x, const Dims& dims);
  ir::Value broadcast(const ir::Value& x, const Dims& dims, const ir::Ints& to);
  ir::Value transpose(const ir::Value& x, const ir::Ints& permutation);
  ir::Value slice(const ir::Value& x, const Dims& begin, const Dims& end, const Dims& step = {});
  ir::Value slice_dim(const ir::Value& x, size_t dim, int64_t begin, int64_t end);
  ir::Value pad(const ir::Value& x, const ir::Value& fill, const Dims& low, const Dims& high, const Dims& inside = {});
  ir::Value compare(const ir::Value& a, const ir::Value& b, std::string_view direction);
  ir::Value reduce(const ir::Value& x, std::string_view kind, int64_t dim);  // from its identity
  ir::Value identity(std::string_view kind, Dtype dtype);

  // The region's results with arrays of these dims for its scalar parameters; empty where it is not elementwise.
  Values inlined(const ir::Region& region, const Values& arguments, const Dims& dims);

 private:
  ir::Graph& graph_;
  uint32_t where_;
};

// Of a graph and of all bodies of loops and branches in it.
std::vector<const ir::Node*> nodes_and_bodies(const ir::Graph& graph);

}  // namespace trine::compile::device
