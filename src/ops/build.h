// The words in which nodes of a graph are written by hand: by decompositions, passes and the ONNX reader alike.
// A word is one node, or none where it would change nothing. What a front-end broadcasts, folds or refuses besides is
// its own. Invariant: a word makes the same node whoever says it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/number/scalar.h"
#include "ir/op_ids.h"
#include "ops/identity.h"
#include "ops/op.h"

namespace trine::ops {

using Values = std::vector<ir::Value>;

// Self has `Made op(id, inputs, attrs, types)` and `Value constant(Tensor)`. Made is ir::Value, or a Result of one
// where the program that is read may be at fault.
template <class Self, class Made>
class Words {
 public:
  using Value = ir::Value;

  Made number(Dtype dtype, double value, const Dims& dims = {}) {  // integers up to 2^53
    return broadcast(self().constant(scalar(dtype, value)), dims, {});
  }
  Made identity(std::string_view kind, Dtype dtype) { return number(dtype, ops::identity(kind, dtype)); }
  Made iota(Dtype dtype, Dims dims, int64_t dim) {
    return self().op(op::iota, {}, {{"iota_dimension", dim}}, {ir::tensor_type(dtype, std::move(dims))});
  }

  Made convert(const Value& x, Dtype dtype) { return cast_by(op::convert, x, dtype); }
  Made bits(const Value& x, Dtype dtype) { return cast_by(op::bitcast_convert, x, dtype); }  // the same bits
  Made reshape(const Value& x, Dims dims) {
    if (x.type().dims == dims) return x;
    return self().op(op::reshape, {x}, {}, {ir::tensor_type(x.type().dtype, std::move(dims))});
  }
  // x's dim i is dim to[i].
  Made broadcast(const Value& x, const Dims& dims, const ir::Ints& to) {
    if (x.type().dims == dims && std::is_sorted(to.begin(), to.end())) return x;
    return self().op(op::broadcast_in_dim, {x}, {{"broadcast_dimensions", to}},
                     {ir::tensor_type(x.type().dtype, dims)});
  }
  Made transpose(const Value& x, ir::Ints permutation) {
    if (std::is_sorted(permutation.begin(), permutation.end())) return x;
    return self().op(op::transpose, {x}, {{"permutation", std::move(permutation)}});
  }
  Made slice(const Value& x, Dims begin, Dims end, Dims step = {}) {
    if (step.empty()) step.assign(begin.size(), 1);
    return self().op(
        op::slice, {x},
        {{"start_indices", std::move(begin)}, {"limit_indices", std::move(end)}, {"strides", std::move(step)}});
  }
  Made slice_dim(const Value& x, int64_t dim, int64_t begin, int64_t end, int64_t step = 1) {
    const size_t rank = x.type().dims.size(), d = size_t(dim);
    Dims from(rank, 0), to = x.type().dims, steps(rank, 1);
    if (begin == 0 && end == to[d] && step == 1) return x;
    from[d] = begin, to[d] = end, steps[d] = step;
    return slice(x, std::move(from), std::move(to), std::move(steps));
  }
  Made pad(const Value& x, const Value& fill, const Dims& low, const Dims& high, const Dims& inside = {}) {
    const Dims none(low.size(), 0);
    if (low == none && high == none && (inside.empty() || inside == none)) return x;
    return self().op(
        op::pad, {x, fill},
        {{"edge_padding_low", low}, {"edge_padding_high", high}, {"interior_padding", inside.empty() ? none : inside}});
  }
  Made concat(Values parts, int64_t dim) {
    if (parts.size() == 1) return parts[0];
    return self().op(op::concatenate, std::move(parts), {{"dimension", dim}});
  }
  Made compare(const Value& a, const Value& b, std::string_view direction) {
    return self().op(op::compare, {a, b}, {{"direction", std::string(direction)}});
  }
  // From its identity.
  Made reduce(const Value& x, std::string_view kind, const ir::Ints& dims) {
    const Dtype dtype = x.type().dtype;
    return self().op(op::reduce, {x, self().constant(scalar(dtype, ops::identity(kind, dtype)))},
                     {{"dimensions", dims}, {"kind", std::string(kind)}});
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  Made cast_by(ir::OpId op, const Value& x, Dtype dtype) {
    if (x.type().dtype == dtype) return x;
    return self().op(op, {x}, {}, {ir::tensor_type(dtype, x.type().dims)});
  }
};

// The words for passes: what the ops refuse is our own bug.
class Make : public Words<Make, ir::Value> {
 public:
  Make(ir::Graph& graph, uint32_t where) : graph_(graph), where_(where) {}

  Value op(ir::OpId op, Values inputs, ir::Attrs attrs = {}, std::vector<ir::Type> types = {},
           std::vector<ir::Region> regions = {});
  Value constant(Tensor tensor) { return graph_.constant(std::move(tensor), where_); }
  // Two values by a reduction's kind.
  Value combine(std::string_view kind, Values inputs) { return op(ir::op_named(kind), std::move(inputs)); }
  // Of this type, unchecked: ops by attributes that only one pass and its reader know.
  Value own(ir::OpId op, Values inputs, ir::Type type, ir::Attrs attrs) {
    return graph_.add1(op, std::move(inputs), std::move(type), std::move(attrs), where_);
  }
  // The region's results with arrays of these dims for its scalar parameters; empty where it is not elementwise.
  Values inlined(const ir::Region& region, const Values& arguments, const Dims& dims);

 private:
  ir::Graph& graph_;
  uint32_t where_;
};

}  // namespace trine::ops
