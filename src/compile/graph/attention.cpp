// From the second multiply down: softmax, masks and scale, the first multiply. Every value on the way is known by which
// dims of the weights its own dims are.
#include "compile/graph/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compile/graph/position_mask.h"
#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::compile {

namespace {

constexpr double kMaskedMax = -1e4;  // a masked score at or below this counts as minus infinity

bool is_narrow(Dtype d) { return is_floating(d) && bits(d) >= 8 && bits(d) <= 32 && d != Dtype::tf32; }

// A value, and which dims of the weights its dims are.
struct Seen {
  ir::Value value = {};
  IndexMap map = {};

  const ir::Node& node() const { return *value.node; }
  Seen input(size_t i) const { return {value.node->inputs[i], map}; }
};

class Matcher {
 public:
  Matcher(const ir::Node& dot, size_t weights) : dot_(dot), weights_(weights) {}

  std::optional<AttentionMatch> match_open(const NodeUsers& users,
                                           const std::unordered_set<const ir::Node*>& live_out) {
    m_.root = &dot_;
    m_.inside = {&dot_};
    if (!second_multiply() || !softmax() || !first_multiply() || !assign_dims()) return std::nullopt;
    take_transpose(users, live_out);
    if (!assign_heads() || !match_mask()) return std::nullopt;
    m_.mask = {mask_.value, mask_.map};
    return m_;
  }
  std::optional<AttentionMatch> match(const NodeUsers& users, const std::unordered_set<const ir::Node*>& live_out) {
    if (!match_open(users, live_out)) return std::nullopt;
    if (size(m_.at.shared) * size(m_.at.query) <= arch::AttentionStep::kFewRows) {
      take_update(m_.k, users, live_out);
      take_update(m_.v, users, live_out);
    }
    const std::unordered_set<const ir::Node*> inside(m_.inside.begin(), m_.inside.end());
    for (const ir::Node* node : inside) {
      if (node == m_.root) continue;
      if (live_out.count(node)) return std::nullopt;
      const bool is_row = node == m_.top.value.node || node == m_.sum.value.node;
      for (const ir::Node* user : users.at(node)) {
        if (is_row && user->op == op::attention_gradient)
          m_.keeps_rows = true;
        else if (!inside.count(user))
          return std::nullopt;
      }
    }
    m_.inside.assign(inside.begin(), inside.end());
    return std::move(m_);
  }

 private:
  // Below views and conversions between floats.
  Seen below(Seen s) {
    while (true) {
      const ir::Node& n = s.node();
      if (n.op == op::convert && is_narrow(n.types[0].dtype) && is_narrow(n.inputs[0].type().dtype)) {
        s = {n.inputs[0], s.map};
      } else if (view_kind(n) == ViewKind::whole) {
        s = {n.inputs[0], through_view(n, s.map)};
      } else {
        return s;
      }
      m_.inside.push_back(&n);
    }
  }

  bool second_multiply() {
    const ir::Ints &contract = dot_.attrs.ints(weights_ ? "rhs_contract" : "lhs_contract"),
                   &other = dot_.attrs.ints(weights_ ? "lhs_contract" : "rhs_contract"),
                   &batch = dot_.attrs.ints(weights_ ? "rhs_batch" : "lhs_batch"),
                   &v_batch = dot_.attrs.ints(weights_ ? "lhs_batch" : "rhs_batch");
    if (contract.size() != 1) return false;
    const ir::Value p = dot_.inputs[weights_], v = dot_.inputs[1 - weights_];
    if (!is_narrow(p.type().dtype) || !is_narrow(v.type().dtype) || !is_narrow(dot_.types[0].dtype)) return false;
    m_.space = p.type().dims;
    const size_t rank = m_.space.size();
    m_.at.key = int(contract[0]);
    m_.v = {v, std::vector<int>(rank, -1), -1};
    m_.out = {dot_.result(), std::vector<int>(rank, -1), -1};
    m_.v.dims[size_t(contract[0])] = int(other[0]);
    int at = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      m_.v.dims[size_t(batch[i])] = int(v_batch[i]);
      m_.out.dims[size_t(batch[i])] = at++;
    }
    auto free_of_p = [&] {
      for (size_t d = 0; d < rank; ++d)
        if (m_.v.dims[d] < 0) m_.out.dims[d] = at++;
    };
    if (weights_ == 0) free_of_p();
    for (int d = 0; d < v.type().rank(); ++d) {
      if (std::find(m_.v.dims.begin(), m_.v.dims.end(), d) != m_.v.dims.end()) continue;
      if (m_.v.last >= 0 && v.type().dims[size_t(d)] != 1 && v.type().dims[size_t(m_.v.last)] != 1) return false;
      if (m_.v.last < 0 || v.type().dims[size_t(d)] != 1) m_.v.last = d, m_.out.last = at;
      ++at;
    }
    if (weights_ == 1) free_of_p();
    m_.step.value_dim = m_.v.last < 0 ? 1 : v.type().dims[size_t(m_.v.last)];
    return true;
  }

  // exp(s - max s) / sum; s is left in scores_.
  bool softmax() {
    const Seen quotient = below({dot_.inputs[weights_], identity_map(int(m_.space.size()))});
    if (quotient.node().op != op::divide) return false;
    m_.inside.push_back(&quotient.node());
    m_.weights = {quotient.value, quotient.map};
    const Seen e = below(quotient.input(0));
    if (e.node().op != op::exponential || !is_rows(quotient.input(1), "add", e)) return false;
    m_.inside.push_back(&e.node());
    m_.raised = {e.value, e.map};
    const Seen difference = below(e.input(0));
    if (difference.node().op != op::subtract) return false;
    m_.inside.push_back(&difference.node());
    scores_ = below(difference.input(0));
    return is_rows(difference.input(1), "maximum", scores_);
  }

  // Is `s` the reduction of `of` over the keys, for every key?
  bool is_rows(Seen s, std::string_view kind, const Seen& of) {
    s = below(s);
    if (kind == "maximum" && s.node().op == op::maximum) {  // with minus infinity
      const auto left = ir::splat_as_written(s.node().inputs[0]), right = ir::splat_as_written(s.node().inputs[1]);
      if (!left && !right) return false;
      if ((left ? *left : *right) != -INFINITY) return false;
      m_.inside.push_back(&s.node());
      s = below(s.input(left ? 1 : 0));
    }
    const ir::Node& n = s.node();
    if (n.op != op::reduce || n.inputs.size() != 2 || n.attrs.text("kind") != kind) return false;
    const auto start = ir::splat_as_written(n.inputs[1]);
    if (!start || *start != (kind == "add" ? 0 : -INFINITY)) return false;
    const ir::Ints& axes = n.attrs.ints("dimensions");
    if (axes.size() != 1) return false;
    m_.inside.push_back(&n);
    (kind == "add" ? m_.sum : m_.top) = {s.value, s.map};
    // The reduced value as it is seen from here: the rows' dims, and the keys'.
    Seen from{n.inputs[0], s.map};
    from.map.insert(from.map.begin() + axes[0], IndexTerm{m_.at.key, 1, 0});
    from = below(from);
    if (from.value != of.value) return false;
    for (size_t d = 0; d < of.map.size(); ++d)
      if (of.value.type().dims[d] != 1 && of.map[d] != from.map[d]) return false;
    return true;
  }

  // Scale, cap, bias and mask above the first multiply, and its operands.
  bool first_multiply() {
    double scale = 1;
    std::optional<double> outside;  // of a cap
    Seen s = scores_;
    for (; s.node().op != op::dot_general; s = below(s)) {
      const ir::Node& n = s.node();
      const bool is_scaled = scale != 1 || outside;
      m_.inside.push_back(&n);
      if (n.op == op::multiply || n.op == op::divide) {
        const auto left = n.op == op::multiply ? ir::splat_as_written(n.inputs[0]) : std::nullopt,
                   right = ir::splat_as_written(n.inputs[1]);
        if (!left && !right) return false;
        const double by = left ? *left : *right;
        scale *= n.op == op::divide ? 1 / by : by;
        s = s.input(left ? 1 : 0);
      } else if (n.op == op::select && n.inputs[0].type().dims == n.types[0].dims) {
        const auto fill = ir::splat_as_written(n.inputs[2]);
        if (!fill || mask_.value.node || is_scaled) return false;
        mask_ = s.input(0);
        m_.step.masked = float(*fill);
        s = s.input(1);
      } else if (n.op == op::add || n.op == op::subtract) {
        const bool left = comes_of_multiply(n.inputs[0]);
        if (left == comes_of_multiply(n.inputs[1]) || bias_.value.node || is_scaled) return false;
        m_.minus = n.op == op::subtract;
        if (m_.minus && !left) return false;
        bias_ = s.input(left ? 1 : 0);
        if (!is_narrow(bias_.value.type().dtype)) return false;
        s = s.input(left ? 0 : 1);
      } else if (n.op == op::tanh && !outside) {
        outside = std::exchange(scale, 1.0);
        s = s.input(0);
      } else {
        return false;
      }
    }
    if (outside) m_.cap = float(scale);
    m_.step.scale = float(outside.value_or(scale));
    return multiply_operands(s);
  }
  static bool comes_of_multiply(ir::Value v) {
    for (int depth = 0; depth < 8; ++depth) {
      const ir::Node& n = *v.node;
      if (n.op == op::dot_general) return true;
      if (n.op == op::select) {
        v = n.inputs[1];
      } else if (n.op == op::multiply || n.op == op::divide) {
        v = n.op == op::multiply && ir::splat_as_written(n.inputs[0]) ? n.inputs[1] : n.inputs[0];
      } else if (n.op == op::convert || n.op == op::tanh || view_kind(n) == ViewKind::whole) {
        v = n.inputs[0];
      } else {
        return false;
      }
    }
    return false;
  }

  bool multiply_operands(const Seen& s) {
    const ir::Node& n = s.node();
    m_.inside.push_back(&n);
    const char* const names[2][2] = {{"lhs_batch", "lhs_contract"}, {"rhs_batch", "rhs_contract"}};
    AttentionOperand sides[2];
    size_t at = 0;
    for (size_t side : {0, 1}) {
      const ir::Ints &batch = n.attrs.ints(names[side][0]), &contract = n.attrs.ints(names[side][1]);
      const ir::Value v = n.inputs[side];
      if (contract.size() != 1 || !is_narrow(v.type().dtype)) return false;
      sides[side] = {v, std::vector<int>(m_.space.size(), -1), int(contract[0])};
      if (side == 0) at = batch.size();
      for (int64_t d = 0; d < v.type().rank(); ++d) {
        if (d == contract[0]) continue;
        const auto found = std::find(batch.begin(), batch.end(), d);
        const IndexTerm& term = s.map[found == batch.end() ? at++ : size_t(found - batch.begin())];
        if (v.type().dims[size_t(d)] == 1) continue;
        if (term.dim < 0 || term.scale != 1 || term.offset != 0) return false;
        sides[side].dims[size_t(term.dim)] = int(d);
      }
    }
    const size_t key = size_t(m_.at.key);
    const bool swapped = sides[0].dims[key] >= 0;
    if (swapped == (sides[1].dims[key] >= 0)) return false;  // of one key there is nothing to weigh
    m_.q = sides[swapped ? 1 : 0];
    m_.k = sides[swapped ? 0 : 1];
    m_.step.dim = m_.q.value.type().dims[size_t(m_.q.last)];
    m_.step.keys = m_.space[key];
    return true;
  }

  // Dims of queries, keys and values are batch, those of queries alone rows; there are no others.
  bool assign_dims() {
    for (size_t d = 0; d < m_.space.size(); ++d) {
      if (m_.space[d] == 1 || int(d) == m_.at.key) continue;
      const bool in_q = m_.q.dims[d] >= 0, in_k = m_.k.dims[d] >= 0, in_v = m_.v.dims[d] >= 0;
      if (!in_q || in_k != in_v) return false;
      (in_k ? batch_ : rows_).push_back(int(d));
    }
    return batch_.size() <= 2 && rows_.size() <= 2;
  }

  void take_transpose(const NodeUsers& users, const std::unordered_set<const ir::Node*>& live_out) {
    const auto found = users.find(&dot_);
    if (live_out.count(&dot_) || found == users.end() || found->second.size() != 1) return;
    const ir::Node& n = *found->second[0];
    if (n.op != op::transpose) return;
    const ir::Ints& from = n.attrs.ints("permutation");
    auto moved = [&](int d) { return d < 0 ? d : int(std::find(from.begin(), from.end(), d) - from.begin()); };
    for (int& d : m_.out.dims) d = moved(d);
    m_.out.last = moved(m_.out.last);
    m_.out.value = n.result();
    m_.root = &n;
    m_.inside.push_back(&n);
  }

  // A cache that is updated for this alone is read as it is, and the update besides.
  void take_update(AttentionOperand& o, const NodeUsers& users, const std::unordered_set<const ir::Node*>& live_out) {
    const ir::Node& n = *o.value.node;
    if (n.op != op::dynamic_update_slice || live_out.count(&n) || users.at(&n).size() != 1) return;
    const Dims &all = n.types[0].dims, &part = n.inputs[1].type().dims;
    const size_t key = size_t(o.dims[size_t(m_.at.key)]);
    for (size_t d = 0; d < all.size(); ++d)
      if (d != key && part[d] != all[d]) return;
    if (part[key] == 0) return;
    m_.inside.push_back(&n);
    o.patch = n.inputs[1];
    o.start = n.inputs[2 + key];
    o.value = n.inputs[0];
  }

  int64_t out_stride(int d) const {
    return row_major_strides(m_.out.value.type().dims)[size_t(m_.out.dims[size_t(d)])];
  }
  int64_t size(int d) const { return d < 0 ? 1 : m_.space[size_t(d)]; }

  bool assign_heads() {
    const std::optional<PositionMask> by_position = mask_.value.node ? position_mask(mask_) : std::nullopt;
    AttentionDims& at = m_.at;
    if (!rows_.empty()) at.query = rows_.back();
    if (rows_.size() == 2) at.shared = rows_.front();
    if (at.shared >= 0 && by_position && by_position->query == at.shared) std::swap(at.query, at.shared);
    if (!batch_.empty()) at.kv = batch_.back();
    if (batch_.size() == 2) at.batch = batch_.front();
    auto is_even = [&] {
      return at.shared < 0 || at.kv < 0 || out_stride(at.kv) == size(at.shared) * out_stride(at.shared);
    };
    if (!is_even()) std::swap(at.batch, at.kv);
    m_.step.batch = size(at.batch);
    m_.step.kv_heads = size(at.kv);
    m_.step.heads = m_.step.kv_heads * size(at.shared);
    m_.step.queries = size(at.query);
    return is_even();
  }

  // A mask by position is none in memory; one mask or bias besides may be.
  bool match_mask() {
    Seen rest = mask_;
    if (mask_.value.node) {
      Seen part = mask_;
      std::optional<PositionMask> by_position = position_mask(part);
      if (!by_position && below_mask(part).node().op == op::and_) {
        const Seen both = below_mask(part);
        for (size_t i : {0, 1}) {
          by_position = position_mask(both.input(i));
          rest = both.input(1 - i);
          if (by_position) break;
        }
      } else if (by_position) {
        rest = {};
      }
      if (!by_position || !hide(*by_position)) rest = mask_;
      if (m_.step.causal && rest.value.node && narrow(position_mask(rest))) rest = {};
    }
    if (rest.value.node && bias_.value.node) return false;
    const Seen& operand = rest.value.node ? rest : bias_;
    if (!operand.value.node) return true;
    AttentionOperand b{operand.value, std::vector<int>(m_.space.size(), -1), -1};
    for (size_t d = 0; d < operand.map.size(); ++d) {
      const IndexTerm& term = operand.map[d];
      if (b.value.type().dims[d] == 1) continue;
      if (term.dim < 0 || term.scale != 1 || term.offset != 0) return false;
      b.dims[size_t(term.dim)] = int(d);
    }
    m_.bias = std::move(b);
    return true;
  }
  static Seen below_mask(Seen s) {
    while (view_kind(s.node()) == ViewKind::whole) s = {s.node().inputs[0], through_view(s.node(), s.map)};
    return s;
  }
  // Keys that no query sees are left out; false where that would change more than rounding.
  bool hide(const PositionMask& p) {
    if (m_.step.masked > kMaskedMax || p.key != m_.at.key || p.offset < 0) return false;
    if (p.query < 0) {
      m_.step.keys = std::min(m_.step.keys, p.offset + 1);
    } else if (p.query == m_.at.query) {
      m_.step.causal = true;
      m_.step.causal_offset = p.offset;
    } else {
      return false;
    }
    return true;
  }
  // A window that keys further back are out of; is it so wide that none are?
  bool narrow(const std::optional<PositionMask>& p) {
    if (!p || p->key != m_.at.query || p->query != m_.at.key) return false;
    if (p->offset >= m_.step.queries - 1) return true;
    m_.back = p->offset;
    return false;
  }
  static std::optional<PositionMask> position_mask(const Seen& s) { return compile::position_mask(s.value, s.map); }

  const ir::Node& dot_;
  const size_t weights_;  // which operand they are
  AttentionMatch m_;
  Seen scores_, mask_, bias_;
  std::vector<int> batch_, rows_;
};

}  // namespace

std::vector<ir::Value> AttentionMatch::reads() const {
  std::vector<ir::Value> out = {q.value, k.value, v.value};
  if (bias) out.push_back(bias->value);
  for (const AttentionOperand* o : {&k, &v})
    if (o->patch.node) out.insert(out.end(), {o->patch, o->start});
  return out;
}

std::optional<AttentionMatch> match_attention(const ir::Node& dot, const NodeUsers& users,
                                              const std::unordered_set<const ir::Node*>& live_out) {
  if (dot.op != op::dot_general) return std::nullopt;
  for (size_t weights : {0, 1})
    if (auto found = Matcher(dot, weights).match(users, live_out)) return found;
  return std::nullopt;
}

std::optional<AttentionMatch> match_open_attention(const ir::Node& dot, const NodeUsers& users) {
  if (dot.op != op::dot_general) return std::nullopt;
  for (size_t weights : {0, 1})
    if (auto found = Matcher(dot, weights).match_open(users, {})) return found;
  return std::nullopt;
}

}  // namespace trine::compile
