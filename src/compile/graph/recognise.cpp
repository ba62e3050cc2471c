// A value that depends on one tensor alone, element by element, is computed at a few points and compared.
#include "compile/graph/recognise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/number/element.h"
#include "base/number/scalar.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/identity.h"

namespace trine::compile {

using ir::Graph;
using ir::Node;
using ir::Replacement;
using ir::Value;

namespace {

constexpr size_t kNodesMax = 128;   // of a function taken apart
constexpr double kNearness = 1e-5;  // relative, of approximations in f32
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kPoints[] = {-kInf, -9,    -4, -2.5f, -2,   -1.5f, -1,   -0.75f, -0.1f, 0,    1e-3f, 0.3f,
                             0.75f, 0.99f, 1,  1.25f, 1.9f, 2,     2.6f, 3.7f,   5.25f, 6.5f, 8.5f,  kInf};
constexpr int64_t kPointCount = std::size(kPoints);

// Values at the points, node by node.
class AtPoints {
 public:
  explicit AtPoints(const Value& x) {
    Tensor points = Tensor::make(Dtype::f32, {kPointCount});
    std::memcpy(points.data.get(), kPoints, sizeof(kPoints));
    known_.emplace(x.node, std::move(points));
  }

  // Nothing where it depends on more than x.
  const Tensor* of(const Value& v) {
    if (auto found = known_.find(v.node); found != known_.end()) return &found->second;
    if (v.node->types.size() != 1 || known_.size() >= kNodesMax) return nullptr;
    auto made = is_constant(*v.node) ? repeated(*v.node) : computed(*v.node);
    return made ? &known_.emplace(v.node, *std::move(made)).first->second : nullptr;
  }

 private:
  static bool is_constant(const Node& node) { return node.op == op::constant || node.op == op::broadcast_in_dim; }

  static std::optional<Tensor> repeated(const Node& node) {
    const Tensor* value = ir::splat_of(node.result());
    if (!value) return std::nullopt;
    Tensor out = Tensor::make(value->dtype, {kPointCount});
    const size_t each = size_t(bytes(value->dtype));
    for (int64_t i = 0; i < kPointCount; ++i) std::memcpy(out.data.get() + size_t(i) * each, value->data.get(), each);
    return out;
  }
  std::optional<Tensor> computed(const Node& node) {
    const ops::Op* op = ops::find_op(node.op);
    if (!op || op->kind != ops::OpKind::elementwise || node.inputs.empty()) return std::nullopt;
    std::vector<TensorView> in;
    for (const Value& v : node.inputs) {
      const Tensor* t = of(v);
      if (!t) return std::nullopt;
      in.push_back(t->view());
    }
    Tensor out = Tensor::make(node.types[0].dtype, {kPointCount});
    const TensorView to[] = {out.view()};
    if (!ops::evaluate(node, in, {}, to)) return std::nullopt;
    return out;
  }

  std::unordered_map<const Node*, Tensor> known_;
};

bool is_near(float got, double want) {
  return std::isinf(want) ? double(got) == want : std::fabs(double(got) - want) <= kNearness * std::fabs(want) + 1e-37;
}

// What a region of (value, index, value, index) keeps, tried on pairs of these.
struct ArgReduce {
  bool is_max = false;
  double value(double x, double y) const {
    if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
    return is_max ? std::max(x, y) : std::min(x, y);
  }
  // Of the first of NaNs, or of equals, the lesser.
  int64_t position(double x, int64_t i, double y, int64_t j) const {
    if (std::isnan(x)) return i;
    if (std::isnan(y)) return j;
    if (x == y) return std::min(i, j);
    return (x > y) == is_max ? i : j;
  }
};

bool keeps(const ir::Region& region, Dtype value, Dtype position, ArgReduce arg_reduce) {
  static constexpr double kWhole[] = {-3, -1, 0, 2}, kReal[] = {-kInf, -3, -0.5, 0, 2, kInf, NAN}, kTruth[] = {0, 1};
  const std::span<const double> values = is_floating(value)        ? std::span<const double>(kReal)
                                         : value == Dtype::boolean ? std::span<const double>(kTruth)
                                                                   : kWhole;
  static constexpr int64_t kPositions[][2] = {{0, 1}, {1, 0}, {2, 5}, {5, 2}};
  ops::Evaluator evaluator({});
  for (double x : values) {
    for (double y : values) {
      if (std::isnan(x) && std::isnan(y)) continue;
      for (const auto& [i, j] : kPositions) {
        const Tensor args[] = {scalar(value, x), scalar(position, double(i)), scalar(value, y),
                               scalar(position, double(j))};
        auto got = evaluator.run(region, args);
        if (!got || got->size() != 2 || int64_t(number((*got)[1])) != arg_reduce.position(x, i, y, j)) return false;
        const double most = number((*got)[0]), want = arg_reduce.value(x, y);
        if (most != want && !(std::isnan(most) && std::isnan(want))) return false;
      }
    }
  }
  return true;
}

}  // namespace

std::optional<ArgMax> match_argmax(const Node& n) {
  if (n.inputs.size() != 4 || n.regions.size() != 1 || !n.captures.empty()) return std::nullopt;
  const Value values = n.inputs[0], positions = n.inputs[1];
  const ir::Type &type = values.type(), &position = positions.type();
  const ir::Ints& along = n.attrs.ints("dimensions");
  if (along.size() != 1 || positions.node->op != op::iota ||
      positions.node->attrs.integer("iota_dimension") != along[0] || !is_integer(position.dtype) ||
      bits(position.dtype) < 8 || ir::splat(n.inputs[3]) != 0.0 || type.dims[size_t(along[0])] < 1)
    return std::nullopt;
  const ArgReduce max{true}, min{false};
  const bool is_max = ops::is_identity(n.inputs[2], "maximum");
  if ((!is_max && !ops::is_identity(n.inputs[2], "minimum")) ||
      !keeps(n.regions[0], type.dtype, position.dtype, is_max ? max : min))
    return std::nullopt;
  return ArgMax{values, along[0], is_max};
}

Replacement take_apart_argmax(Graph& g, const Node& n) {
  const auto match = match_argmax(n);
  if (!match) return {};
  const auto& [values, at, is_max] = *match;
  const Value positions = n.inputs[1];
  const ir::Type &type = values.type(), &position = positions.type();
  const ir::Ints along = {at};
  ir::Ints others;
  for (int64_t d = 0; d < int64_t(type.dims.size()); ++d)
    if (d != along[0]) others.push_back(d);
  ops::Make make(g, n.where);
  auto reduce = [&](const Value& v, const Value& init, std::string kind, const ir::Type& to) {
    return make.op(op::reduce, {v, init}, {{"dimensions", along}, {"kind", std::move(kind)}}, {to});
  };
  const bool is_truth = type.dtype == Dtype::boolean;
  const std::string kind = is_truth ? (is_max ? "or" : "and") : is_max ? "maximum" : "minimum";
  const Value most = reduce(values, n.inputs[2], kind, n.types[0]);
  Value hit = make.compare(values, make.broadcast(most, type.dims, others), "EQ");
  if (is_floating(type.dtype)) hit = make.op(op::or_, {hit, make.compare(values, values, "NE")});
  const Value last = make.number(position.dtype, double(type.dims[size_t(along[0])] - 1));
  const Value where = make.op(op::select, {hit, positions, make.broadcast(last, position.dims, {})});
  return {most, reduce(where, last, "minimum", n.types[1])};
}

std::optional<bool> sorts_upwards(const Node& sort) {
  const Dtype dtype = sort.inputs[0].type().dtype;
  if (sort.regions.size() != 1 || !is_floating(dtype)) return std::nullopt;
  ops::Environment around;
  for (const Value& v : sort.captures) {
    if (v.node->op != op::constant) return std::nullopt;
    around[v.node] = {*v.node->attrs.tensor("value")};
  }
  ops::Evaluator evaluator(around);
  // Does x come before y? Nothing where that depends on other operands.
  const auto before = [&](double x, double y) -> std::optional<bool> {
    std::optional<bool> first;
    for (double other : {0.0, 1.0}) {
      std::vector<Tensor> args = {scalar(dtype, x), scalar(dtype, y)};
      for (size_t i = 1; i < sort.inputs.size(); ++i)
        for (double v : {other, 1 - other}) args.push_back(scalar(sort.inputs[i].type().dtype, v));
      auto got = evaluator.run(sort.regions[0], args);
      if (!got || got->size() != 1) return std::nullopt;
      const bool is = number((*got)[0]) != 0;
      if (first && *first != is) return std::nullopt;
      first = is;
    }
    return first;
  };
  const auto up = before(-0.5, 2);
  if (!up) return std::nullopt;
  constexpr double kReal[] = {-INFINITY, -3, -0.5, 0, 2, INFINITY};
  for (double x : kReal) {
    for (double y : kReal)
      if (before(x, y) != (*up ? x < y : x > y)) return std::nullopt;
    const auto odd = before(NAN, x), even = before(x, NAN);
    if (!odd || !even || ((*odd || *even) && (*odd == *up || *even != *up))) return std::nullopt;
  }
  if (before(-0.0, 0.0) != false || before(0.0, -0.0) != false) return std::nullopt;
  return up;
}

Replacement recognise_erfc(Graph& graph, const Node& node) {
  const Node& test = *node.inputs[0].node;
  if (node.types[0].dtype != Dtype::f32 || test.op != op::compare || test.inputs[0].node->op != op::abs) return {};
  const Value x = test.inputs[0].node->inputs[0];
  if (x.type().dims != node.types[0].dims || x.index != 0 || x.node->types.size() != 1) return {};
  AtPoints at(x);
  const Tensor* near = at.of(node.inputs[1]);
  const Tensor* far = near ? at.of(node.inputs[2]) : nullptr;
  if (!far || near->dtype != Dtype::f32) return {};
  const auto is_erfc_of = [&](double sign) {
    for (int64_t i = 0; i < kPointCount; ++i) {
      const float point = kPoints[i];
      const Tensor* t = std::fabs(point) < 1 ? near : far;
      if (!is_near(t->view().as<const float>()[i], std::erfc(sign * double(point)))) return false;
    }
    return true;
  };
  if (is_erfc_of(1)) return {graph.add1(op::erfc, {x}, node.types[0], {}, node.where)};
  if (!is_erfc_of(-1)) return {};  // as twice the normal distribution's function is written
  const Value mirrored = graph.add1(op::negate, {x}, node.types[0], {}, node.where);
  return {graph.add1(op::erfc, {mirrored}, node.types[0], {}, node.where)};
}

}  // namespace trine::compile
