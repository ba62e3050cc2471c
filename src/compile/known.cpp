// A value that depends on one tensor alone, element by element, is computed at a few points and compared.
#include "compile/known.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "ops/evaluate.h"

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
  static bool is_constant(const Node& node) { return node.op == "constant" || node.op == "broadcast_in_dim"; }

  static std::optional<Tensor> repeated(const Node& node) {
    const Node& from = node.op == "broadcast_in_dim" ? *node.inputs[0].node : node;
    const Tensor* value = from.op == "constant" ? from.attrs.tensor("value") : nullptr;
    if (!value || value->bytes() != size_t(bytes(value->dtype))) return std::nullopt;
    Tensor out = Tensor::make(value->dtype, {kPointCount});
    const size_t each = value->bytes();
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

}  // namespace

Replacement put_together_erfc(Graph& graph, const Node& node) {
  const Node& test = *node.inputs[0].node;
  if (node.types[0].dtype != Dtype::f32 || test.op != "compare" || test.inputs[0].node->op != "abs") return {};
  const Value x = test.inputs[0].node->inputs[0];
  if (x.type().dims != node.types[0].dims || x.index != 0 || x.node->types.size() != 1) return {};
  AtPoints at(x);
  const Tensor* near = at.of(node.inputs[1]);
  const Tensor* far = near ? at.of(node.inputs[2]) : nullptr;
  if (!far || near->dtype != Dtype::f32) return {};
  for (int64_t i = 0; i < kPointCount; ++i) {
    const float point = kPoints[i];
    const Tensor* t = std::fabs(point) < 1 ? near : far;
    if (!is_near(t->view().as<const float>()[i], std::erfc(double(point)))) return {};
  }
  return {graph.add1("erfc", {x}, node.types[0], {}, node.where)};
}

}  // namespace trine::compile
