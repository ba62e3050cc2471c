// Recognising comparators, and keys as unsigned numbers.
#include "ops/reduce/sort_order.h"

#include <bit>
#include <cmath>

#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

// The value of a key on one side of the comparison.
struct Side {
  size_t param = 0;
  SortKey key = {};
};

bool is_constant(const ir::Value& v, bool (*holds)(double)) {
  const auto number = ir::splat(v);
  return number && is_floating(v.type().dtype) && holds(*number);
}

bool is_compare(const ir::Value& v, std::string_view direction) {
  return v.node->op == op::compare && v.node->attrs.text("direction") == direction;
}

// select(x == 0, 0, x) and select(x != x, NaN, ...) around a parameter, or around its real or imaginary part.
std::optional<Side> match_side(const ir::Region& region, const ir::Value& v, int depth = 4) {
  if (depth == 0) return {};
  for (size_t i = 0; i < region.params.size(); ++i)
    if (region.params[i] == v) return Side{i, {.operand = i / 2}};
  const ir::Node& node = *v.node;
  if (node.op == op::real || node.op == op::imag) {
    auto side = match_side(region, node.inputs[0], depth - 1);
    if (!side || side->key.part != KeyPart::whole) return {};
    side->key.part = node.op == op::real ? KeyPart::real : KeyPart::imaginary;
    return side;
  }
  if (node.op != op::select || node.inputs.size() != 3) return {};
  auto side = match_side(region, node.inputs[2], depth - 1);
  const ir::Value& test = node.inputs[0];
  if (!side) return {};
  // The test looks at the value itself, or at what it was before the other select.
  auto tests_same = [&](const ir::Value& tested) {
    auto other = match_side(region, tested, depth - 1);
    return other && other->param == side->param && other->key.part == side->key.part;
  };
  if (is_compare(test, "EQ") && is_constant(test.node->inputs[1], [](double d) { return d == 0; }) &&
      is_constant(node.inputs[1], [](double d) { return d == 0 && !std::signbit(d); }) &&
      tests_same(test.node->inputs[0])) {
    side->key.merges_zeros = true;
    return side;
  }
  if (is_compare(test, "NE") && test.node->inputs[0] == test.node->inputs[1] &&
      is_constant(node.inputs[1], [](double d) { return std::isnan(d) && !std::signbit(d); }) &&
      tests_same(test.node->inputs[0])) {
    side->key.merges_nans = true;
    return side;
  }
  return {};
}

bool same_key(const SortKey& a, const SortKey& b) {
  return a.operand == b.operand && a.part == b.part && a.is_total == b.is_total && a.merges_zeros == b.merges_zeros &&
         a.merges_nans == b.merges_nans;
}

// compare(direction, key of one side, the same key of the other side).
std::optional<SortKey> match_compare(const ir::Region& region, const ir::Value& v, bool wants_equal) {
  if (v.node->op != op::compare) return {};
  const std::string_view direction = v.node->attrs.text("direction");
  const auto a = match_side(region, v.node->inputs[0]), b = match_side(region, v.node->inputs[1]);
  if (!a || !b || !same_key(a->key, b->key) || a->param == b->param) return {};
  SortKey key = a->key;
  key.is_total = v.node->attrs.text("compare_type") == "TOTALORDER";
  if (is_floating(v.node->inputs[0].type().dtype) && !key.is_total) return {};
  if (wants_equal) return direction == "EQ" ? std::optional(key) : std::nullopt;
  if (direction != "LT" && direction != "GT") return {};
  key.is_descending = (direction == "GT") == (a->param < b->param);
  return key;
}

// less(first key), or less(first key) or (equal(first key) and the rest).
bool match_less(const ir::Region& region, const ir::Value& v, std::vector<SortKey>& keys) {
  if (auto key = match_compare(region, v, false)) {
    keys.push_back(*key);
    return true;
  }
  if (v.node->op != op::or_) return false;
  const auto less = match_compare(region, v.node->inputs[0], false);
  const ir::Value& both = v.node->inputs[1];
  if (!less || both.node->op != op::and_) return false;
  const auto equal = match_compare(region, both.node->inputs[0], true);
  if (!equal || !same_key(*less, *equal)) return false;
  keys.push_back(*less);
  return match_less(region, both.node->inputs[1], keys);
}

uint64_t order_bits(double v, const SortKey& key) {
  if (key.merges_zeros && v == 0) v = 0;
  if (key.merges_nans && std::isnan(v)) v = std::numeric_limits<double>::quiet_NaN();
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  return bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
}

uint64_t order_bits(int64_t v, const SortKey&) { return uint64_t(v) ^ (uint64_t{1} << 63); }
uint64_t order_bits(uint64_t v, const SortKey&) { return v; }
uint64_t order_bits(bool v, const SortKey&) { return v; }
uint64_t order_bits(Complex128 v, const SortKey& key) {
  return order_bits(key.part == KeyPart::imaginary ? v.imag() : v.real(), key);
}

}  // namespace

std::optional<std::vector<SortKey>> sort_order(const ir::Node& node) {
  std::vector<SortKey> keys;
  if (!node.regions.empty()) {
    if (!match_less(node.regions[0], node.regions[0].results[0], keys)) return {};
    return keys;
  }
  const bool is_total = node.attrs.text("compare_type") == "TOTALORDER";
  const Dtype dtype = node.inputs[0].type().dtype;
  if (is_complex(dtype) || (is_floating(dtype) && !is_total)) return {};
  return std::vector<SortKey>{{.is_descending = node.attrs.text("direction") == "GT", .is_total = is_total}};
}

std::vector<uint64_t> sort_keys(const SortKey& key, const TensorView& x) {
  std::vector<uint64_t> out(size_t(x.elements()));
  dispatch_wide(x.dtype, [&]<class W>() {
    const WideArray<W> wide = load_wide<W>(x);
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t bits = order_bits(wide[int64_t(i)], key);
      out[i] = key.is_descending ? ~bits : bits;
    }
  });
  return out;
}

}  // namespace trine::ops
