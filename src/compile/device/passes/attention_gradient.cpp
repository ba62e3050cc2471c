// What an expression of the weights is, is known by what it gives: it is tried with numbers, on one row, so that every
// way to write softmax's derivative is found. The multiplies around it say which dims are whose. See
// attention_gradient.h.
#include "compile/device/passes/attention_gradient.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <unordered_map>

#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ops/internal.h"

namespace trine::compile::device {

namespace {

constexpr size_t kKeys = 6, kSeen = 4;  // keys of the row that is tried, and those that the mask leaves
constexpr int kStepsMax = 2048;         // values looked at for one expression
constexpr size_t kBetweenMax = 64;      // nodes between the weights and the multiplies that use them
constexpr int64_t kKeysMax = 8192;      // whose gradients are on chip at once

using Numbers = std::array<double, kKeys>;

bool is_float(Dtype d) { return is_floating(d) && bits(d) >= 8 && bits(d) <= 32; }

// One row of an expression over the weights, and which of its dims are which of the weights' own.
class Row {
 public:
  explicit Row(const AttentionMatch& m) : m_(m), dims_(m.space.size(), -1) {
    double sum = 0;
    for (size_t i = 0; i < kKeys; ++i) {
      raised_[i] = m.mask.value.node && i >= kSeen ? 0 : 0.3 + 0.7 * std::fmod(0.618 * double(i + 1), 1.0);
      gradient_[i] = std::cos(2.1 * double(i + 1));
      sum += raised_[i];
    }
    double mean = 0;
    for (size_t i = 0; i < kKeys; ++i) {
      sum_[i] = sum;
      weights_[i] = raised_[i] / sum;
      mean += weights_[i] * gradient_[i];
    }
    for (size_t i = 0; i < kKeys; ++i) slope_[i] = weights_[i] * (gradient_[i] - mean);
  }

  enum class Is : uint8_t { other, weights, slope };
  // value: the operand of a multiply. slope: factor · weights · (product - Σ weights · product).
  Is what(const ir::Value& value) {
    const IndexMap map = identity_map(value.type().rank());
    if (!align(value, map, 0)) return Is::other;
    const auto found = of(value, map);
    if (!found) return Is::other;
    if (is_multiple(*found, product.value.node ? slope_ : weights_))
      return product.value.node ? Is::slope : Is::weights;
    return Is::other;
  }

  AttentionPart product = {};  // the gradient of the weights, a multiply's result; its map is by the operand's dims
  double factor = 1;
  // The operand's dim for each of the weights'; -1: of one element.
  const std::vector<int>& dims() const { return dims_; }

 private:
  bool is_multiple(const Numbers& given, const Numbers& of) {
    size_t most = 0;
    for (size_t i = 0; i < kKeys; ++i)
      if (std::fabs(of[i]) > std::fabs(of[most])) most = i;
    factor = given[most] / of[most];
    if (!std::isfinite(factor) || factor == 0) return false;
    for (size_t i = 0; i < kKeys; ++i)
      if (!(std::fabs(given[i] - factor * of[i]) <= 1e-5 * std::fabs(given[most]))) return false;
    return true;
  }
  // Is it this part of the attention, dim for dim?
  bool is(const ir::Value& v, const IndexMap& map, const AttentionPart& part) {
    if (v != part.value) return false;
    for (size_t d = 0; d < map.size(); ++d) {
      if (v.type().dims[d] == 1) continue;
      if (map[d].dim < 0 || map[d].scale != 1 || map[d].offset != 0 || part.map[d].dim < 0) return bad_ = true;
      int& known = dims_[size_t(part.map[d].dim)];
      if (known < 0) known = map[d].dim;
      bad_ = bad_ || known != map[d].dim;
    }
    return true;
  }
  // Down to the weights, so that the keys' dim is known.
  bool align(const ir::Value& v, const IndexMap& map, int depth) {
    if (depth > 32 || bad_) return false;
    if (is(v, map, m_.weights) || is(v, map, m_.raised)) return !bad_;
    const ir::Node& n = *v.node;
    if (n.op == op::reduce || n.op == op::dot_general || n.op == op::constant || n.inputs.empty()) return false;
    const IndexMap below = view_kind(n) == ViewKind::whole ? through_view(n, map) : map;
    return std::any_of(n.inputs.begin(), n.inputs.end(), [&](const ir::Value& in) {
      return in.type().dims.size() == below.size() && align(in, below, depth + 1);
    });
  }

  std::optional<Numbers> of(const ir::Value& v, const IndexMap& map) {
    if (++steps_ > kStepsMax || bad_) return std::nullopt;
    if (is(v, map, m_.weights)) return weights_;
    if (is(v, map, m_.raised)) return raised_;
    if (is(v, map, m_.sum)) return sum_;
    if (!is_float(v.type().dtype)) return std::nullopt;
    if (const auto number = ir::splat_as_written(v)) {
      Numbers all;
      all.fill(*number);
      return all;
    }
    const ir::Node& n = *v.node;
    if (view_kind(n) == ViewKind::whole) return of(n.inputs[0], through_view(n, map));
    if (n.op == op::convert) return of(n.inputs[0], map);
    if (n.op == op::dot_general) {
      if (!product.value.node) product = {v, map};
      bool alike = product.value == v;
      for (size_t d = 0; d < map.size() && alike; ++d) alike = v.type().dims[d] == 1 || product.map[d] == map[d];
      return alike ? std::optional(gradient_) : std::nullopt;
    }
    if (n.op == op::select) return chosen(n, map);
    if (n.op == op::reduce) return total(n, map);
    return arithmetic(n, map);
  }
  std::optional<Numbers> chosen(const ir::Node& n, const IndexMap& map) {
    if (n.inputs[0].type().dims.size() != map.size() || !is(n.inputs[0], map, m_.mask)) return std::nullopt;
    auto a = of(n.inputs[1], map);
    const auto b = of(n.inputs[2], map);
    if (!a || !b) return std::nullopt;
    for (size_t i = kSeen; i < kKeys; ++i) (*a)[i] = (*b)[i];
    return a;
  }
  std::optional<Numbers> total(const ir::Node& n, IndexMap map) {
    const ir::Ints& axes = n.attrs.ints("dimensions");
    if (n.inputs.size() != 2 || n.attrs.text("kind") != "add" || axes.size() != 1) return std::nullopt;
    if (ir::splat_as_written(n.inputs[1]) != 0.0) return std::nullopt;
    map.insert(map.begin() + axes[0], IndexTerm{dims_[size_t(m_.at.key)], 1, 0});
    auto all = of(n.inputs[0], map);
    if (!all) return std::nullopt;
    double sum = 0;
    for (double x : *all) sum += x;
    all->fill(sum);
    return all;
  }
  std::optional<Numbers> arithmetic(const ir::Node& n, const IndexMap& map) {
    constexpr ir::OpId kOps[] = {op::add, op::subtract, op::multiply, op::divide, op::negate};
    if (std::ranges::find(kOps, n.op) == std::end(kOps)) return std::nullopt;
    auto a = of(n.inputs[0], map);
    const auto b = n.inputs.size() > 1 ? of(n.inputs[1], map) : a;
    if (!a || !b) return std::nullopt;
    for (size_t i = 0; i < kKeys; ++i) {
      double &x = (*a)[i], y = (*b)[i];
      x = n.op == op::add        ? x + y
          : n.op == op::subtract ? x - y
          : n.op == op::multiply ? x * y
          : n.op == op::divide   ? x / y
                                 : -x;
    }
    return a;
  }

  const AttentionMatch& m_;
  Numbers raised_ = {}, weights_ = {}, sum_ = {}, gradient_ = {}, slope_ = {};
  std::vector<int> dims_;
  int steps_ = 0;
  bool bad_ = false;
};

// The value below views, with its own dims.
AttentionOperand resolved(AttentionOperand o) {
  IndexMap map = identity_map(o.value.type().rank());
  ir::Value v = o.value;
  while (view_kind(*v.node) == ViewKind::whole) {
    map = through_view(*v.node, map);
    v = v.node->inputs[0];
  }
  const auto below = [&](int own) {
    for (size_t d = 0; d < map.size(); ++d)
      if (own >= 0 && map[d].dim == own && map[d].scale == 1 && v.type().dims[d] != 1) return int(d);
    return -1;
  };
  for (int& d : o.dims) d = below(d);
  o.last = below(o.last);
  o.value = v;
  return o;
}
bool same(const AttentionOperand& a, const AttentionOperand& b) {
  const AttentionOperand x = resolved(a), y = resolved(b);
  return x.value == y.value && x.dims == y.dims && x.last == y.last;
}

// A multiply of something with the weights' dims by a value of heads.
struct Multiplied {
  AttentionOperand other = {}, out = {};
  std::vector<int> summed = {};  // dims of the weights of more than one element
};

class Finder {
 public:
  Finder(const AttentionMatch& m, const NodeUsers& users, const std::unordered_set<const ir::Node*>& live_out)
      : m_(m), users_(users), live_out_(live_out), inside_(m.inside.begin(), m.inside.end()) {}

  bool find() {
    if (m_.step.keys != m_.space[size_t(m_.at.key)] || m_.step.keys > kKeysMax || m_.step.value_dim > 128) return false;
    return gather() && sort();
  }

  AttentionOperand gradient, results[3];  // of out; of q, k and v
  double factors[3] = {1, 1, 1};

 private:
  // Everything between the weights and multiplies, and those; false where something else reads them.
  bool gather() {
    std::vector<const ir::Node*> worklist;
    std::unordered_set<const ir::Node*> seen;
    const auto spread = [&](const ir::Node* node) {
      const auto found = users_.find(node);
      if (found == users_.end() || live_out_.count(node)) return false;
      for (const ir::Node* user : found->second)
        if (!inside_.count(user) && seen.insert(user).second) worklist.push_back(user);
      return true;
    };
    for (const ir::Node* node : m_.inside)
      if (node != m_.root && !spread(node)) return false;
    while (!worklist.empty()) {
      const ir::Node* const node = worklist.back();
      worklist.pop_back();
      if (seen.size() > kBetweenMax || !node->regions.empty()) return false;
      if (node->op == op::dot_general)
        multiplies_.push_back(node);
      else if (!spread(node))
        return false;
    }
    return multiplies_.size() == 3;
  }

  bool sort() {
    const ir::Node* product = nullptr;
    std::optional<Multiplied> by_weights;
    for (const ir::Node* dot : multiplies_) {
      bool used = false;
      for (size_t side : {0, 1}) {
        if (used || dot->inputs[0] == dot->inputs[1]) break;
        Row row(m_);
        const Row::Is is = row.what(dot->inputs[side]);
        const auto found = is == Row::Is::other ? std::nullopt : multiplied(*dot, side, row.dims());
        if (!found) continue;
        size_t which = 2;
        if (is == Row::Is::slope) {
          if (product && product != row.product.value.node) return false;
          if (!product && !products(row)) return false;
          product = row.product.value.node;
          which = found->summed == std::vector<int>{m_.at.key} ? 0 : 1;
          if (!same(found->other, which == 0 ? m_.k : m_.q)) return false;
        } else {
          by_weights = found;
        }
        if (which && found->summed != rows()) return false;
        if (results[which].value.node) return false;
        results[which] = transposed(found->out);
        factors[which] = row.factor;
        used = true;
      }
      if (!used) return false;
    }
    return product && by_weights && same(by_weights->other, gradient);
  }
  std::vector<int> rows() const {
    std::vector<int> out;
    for (int d : {m_.at.shared, m_.at.query})
      if (d >= 0 && m_.space[size_t(d)] > 1) out.push_back(d);
    std::sort(out.begin(), out.end());
    return out;
  }

  // dims: the operand's dim for each of the weights'.
  std::optional<Multiplied> multiplied(const ir::Node& dot, size_t side, const std::vector<int>& dims) const {
    const ir::Value mine = dot.inputs[side], other = dot.inputs[1 - side];
    const char* const batches[] = {"lhs_batch", "rhs_batch"};
    const char* const contracts[] = {"lhs_contract", "rhs_contract"};
    const auto weights_dim = [&](int64_t own) {
      const auto found = std::find(dims.begin(), dims.end(), int(own));
      return found == dims.end() ? -1 : int(found - dims.begin());
    };
    Multiplied out;
    out.other = {other, std::vector<int>(dims.size(), -1), -1};
    out.out = {dot.result(), std::vector<int>(dims.size(), -1), -1};
    std::vector<bool> mine_done(size_t(mine.type().rank())), other_done(size_t(other.type().rank()));
    int at = 0;
    for (const auto* lists : {batches, contracts}) {
      const ir::Ints &a = dot.attrs.ints(lists[side]), &b = dot.attrs.ints(lists[1 - side]);
      for (size_t i = 0; i < a.size(); ++i) {
        const int d = weights_dim(a[i]);
        mine_done[size_t(a[i])] = other_done[size_t(b[i])] = true;
        const int result = lists == batches ? at++ : -1;
        if (mine.type().dims[size_t(a[i])] == 1) continue;
        if (d < 0) return std::nullopt;
        out.other.dims[size_t(d)] = int(b[i]);
        if (lists == batches)
          out.out.dims[size_t(d)] = result;
        else
          out.summed.push_back(d);
      }
    }
    for (size_t operand : {0, 1})  // free dims of the left operand, then of the right one
      for (size_t d = 0; d < (operand == side ? mine_done : other_done).size(); ++d) {
        if ((operand == side ? mine_done : other_done)[d]) continue;
        const int result = at++;
        if ((operand == side ? mine : other).type().dims[d] == 1) continue;
        if (operand != side) {
          if (out.other.last >= 0) return std::nullopt;
          out.other.last = int(d), out.out.last = result;
        } else if (const int own = weights_dim(int64_t(d)); own >= 0) {
          out.out.dims[size_t(own)] = result;
        } else {
          return std::nullopt;
        }
      }
    std::sort(out.summed.begin(), out.summed.end());
    return out;
  }

  // The gradient of the weights: of out by the values.
  bool products(const Row& row) {
    const ir::Node& dot = *row.product.value.node;
    if (!users_.count(&dot) || live_out_.count(&dot)) return false;
    const char* const lists[2][2] = {{"lhs_batch", "lhs_contract"}, {"rhs_batch", "rhs_contract"}};
    AttentionOperand sides[2];
    size_t at = dot.attrs.ints("lhs_batch").size();
    for (size_t side : {0, 1}) {
      const ir::Ints &batch = dot.attrs.ints(lists[side][0]), &contract = dot.attrs.ints(lists[side][1]);
      const ir::Value v = dot.inputs[side];
      if (contract.size() != 1) return false;
      sides[side] = {v, std::vector<int>(m_.space.size(), -1), int(contract[0])};
      for (int64_t d = 0; d < v.type().rank(); ++d) {
        if (d == contract[0]) continue;
        const auto found = std::find(batch.begin(), batch.end(), d);
        const IndexTerm& term = row.product.map[found == batch.end() ? at++ : size_t(found - batch.begin())];
        if (v.type().dims[size_t(d)] == 1) continue;
        const auto own = std::find(row.dims().begin(), row.dims().end(), term.dim);
        if (term.dim < 0 || term.scale != 1 || term.offset != 0 || own == row.dims().end()) return false;
        sides[side].dims[size_t(own - row.dims().begin())] = int(d);
      }
    }
    const size_t values = sides[0].dims[size_t(m_.at.key)] >= 0 ? 0 : 1;
    gradient = sides[1 - values];
    return same(sides[values], m_.v);
  }

  // What the graph reads: the product, or a transpose of it that is all that is read.
  AttentionOperand transposed(AttentionOperand o) const {
    const auto found = users_.find(o.value.node);
    if (live_out_.count(o.value.node) || found == users_.end() || found->second.size() != 1) return o;
    const ir::Node& n = *found->second[0];
    if (n.op != op::transpose) return o;
    const ir::Ints& from = n.attrs.ints("permutation");
    const auto moved = [&](int d) { return d < 0 ? d : int(std::find(from.begin(), from.end(), d) - from.begin()); };
    for (int& d : o.dims) d = moved(d);
    o.last = moved(o.last);
    o.value = n.result();
    return o;
  }

  const AttentionMatch& m_;
  const NodeUsers& users_;
  const std::unordered_set<const ir::Node*>& live_out_;
  std::unordered_set<const ir::Node*> inside_;
  std::vector<const ir::Node*> multiplies_;
};

// One gradient, and its node in the new graph once there is one.
struct Made {
  AttentionMatch match = {};
  AttentionOperand inputs[5] = {}, results[3] = {};
  double factors[3] = {};
  const ir::Node* node = nullptr;

  ir::Ints dims_of(const AttentionOperand& o) const {
    ir::Ints out;
    for (int d : {match.at.batch, match.at.kv, match.at.shared, match.at.query, match.at.key})
      out.push_back(d < 0 || match.space[size_t(d)] == 1 ? -1 : o.dims[size_t(d)]);
    out.push_back(o.last);
    return out;
  }
  ir::Ints dims_of(const AttentionPart& part) const {
    AttentionOperand rows{part.value, std::vector<int>(match.space.size(), -1), -1};
    for (size_t d = 0; d < part.map.size(); ++d)
      if (part.map[d].dim >= 0) rows.dims[size_t(part.map[d].dim)] = int(d);
    return dims_of(rows);
  }
  void make(ir::Graph& graph, const ir::NewValue& fresh, uint32_t where) {
    const arch::AttentionStep& s = match.step;
    ir::Spec spec{.op = op::attention_gradient, .where = where};
    for (size_t i = 0; i < 5; ++i) {
      spec.inputs.push_back(fresh(inputs[i].value));
      spec.attrs.set(ops::kGradientInputs[i], dims_of(inputs[i]));
    }
    for (size_t i : {ops::kTopInput, ops::kSumInput}) {
      const AttentionPart& part = i == ops::kTopInput ? match.top : match.sum;
      spec.inputs.push_back(fresh(part.value));
      spec.attrs.set(ops::kGradientInputs[i], dims_of(part));
    }
    if (match.bias) {
      const AttentionOperand bias = resolved(*match.bias);
      spec.inputs.push_back(fresh(bias.value));
      spec.attrs.set(ops::kGradientInputs[ops::kBiasInput], dims_of(bias));
    }
    for (size_t i = 0; i < 3; ++i) {
      spec.types.push_back(results[i].value.type());
      spec.attrs.set(ops::kGradientResults[i], dims_of(results[i]));
      spec.attrs.set(ops::kGradientFactors[i], factors[i]);
    }
    spec.attrs.set("sizes", ir::Ints{s.batch, s.kv_heads, s.heads / s.kv_heads, s.queries, s.keys, s.dim, s.value_dim});
    spec.attrs.set("scale", double(s.scale));
    spec.attrs.set("causal", s.causal);
    spec.attrs.set("causal_offset", s.causal_offset);
    node = graph.add(std::move(spec));
  }
};

}  // namespace

ir::Graph with_attention_gradients(const ir::Graph& graph, bool (*takes)(const AttentionMatch&)) {
  NodeUsers users;
  std::unordered_set<const ir::Node*> live_out;
  const std::vector<const ir::Node*> nodes = graph.order();
  for (const ir::Node* node : nodes)
    for (const auto* list : {&node->inputs, &node->captures})
      for (const ir::Value& v : *list) {
        auto& of = users[v.node];
        if (of.empty() || of.back() != node) of.push_back(node);
      }
  for (const auto* list : {&graph.results, &graph.effects})
    for (const ir::Value& v : *list) live_out.insert(v.node);

  std::deque<Made> all;
  std::unordered_map<const ir::Node*, std::pair<Made*, uint32_t>> by_result;
  for (const ir::Node* node : nodes) {
    const auto match = match_open_attention(*node, users);
    if (!match || !takes(*match) || (match->bias && match->step.causal)) continue;
    Finder found(*match, users, live_out);
    if (!found.find()) continue;
    Made& made = all.emplace_back();
    made.match = *match;
    const AttentionOperand* const from[] = {&match->q, &match->k, &match->v, &match->out, &found.gradient};
    for (size_t i = 0; i < 5; ++i) made.inputs[i] = i == 3 ? *from[i] : resolved(*from[i]);
    for (uint32_t i = 0; i < 3; ++i) {
      made.results[i] = found.results[i];
      made.factors[i] = found.factors[i];
      by_result[found.results[i].value.node] = {&made, i};
    }
  }
  return ir::substituted(graph, [&](ir::Graph& to, const ir::Node& old, const ir::NewValue& fresh) -> ir::Replacement {
    const auto found = by_result.find(&old);
    if (found == by_result.end()) return {};
    const auto [made, which] = found->second;
    if (!made->node) made->make(to, fresh, old.where ? to.add_location(graph.location(old.where)) : 0);
    return {made->node->result(which)};
  });
}

}  // namespace trine::compile::device
