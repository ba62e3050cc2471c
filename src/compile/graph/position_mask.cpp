// Both sides of the comparison as sums of positions and a number.
#include "compile/graph/position_mask.h"

#include <cmath>
#include <map>

#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::compile {

namespace {

constexpr int kDepthMax = 16;  // ops between an iota and the comparison

// offset + the sum of by[d] * i[d].
struct Affine {
  int64_t offset = 0;
  std::map<int, int64_t> by = {};

  void add(const Affine& other, int64_t times) {
    offset += times * other.offset;
    for (auto [dim, scale] : other.by)
      if ((by[dim] += times * scale) == 0) by.erase(dim);
  }
};

std::optional<Affine> affine(const ir::Value& v, const IndexMap& map, int depth) {
  const ir::Node& n = *v.node;
  // Narrow or unsigned numbers wrap.
  if (depth == 0 || row(v.type().dtype).kind != DtypeKind::signed_int || bits(v.type().dtype) < 32) return std::nullopt;
  if (const auto number = ir::splat(v)) {
    if (std::abs(*number) > 0x1p31) return std::nullopt;
    return Affine{int64_t(*number)};
  }
  if (view_kind(n) != ViewKind::none) return affine(n.inputs[0], through_view(n, map), depth - 1);
  if (n.op == op::iota) {
    const size_t dim = size_t(n.attrs.integer("iota_dimension"));
    const IndexTerm& term = map[dim];
    Affine out{term.offset};
    if (term.dim >= 0 && v.type().dims[dim] > 1) out.by[term.dim] = term.scale;
    return out;
  }
  if (n.op == op::convert) return affine(n.inputs[0], map, depth - 1);
  if (n.op != op::add && n.op != op::subtract) return std::nullopt;
  auto left = affine(n.inputs[0], map, depth - 1);
  const auto right = affine(n.inputs[1], map, depth - 1);
  if (!left || !right) return std::nullopt;
  left->add(*right, n.op == op::add ? 1 : -1);
  return left;
}

}  // namespace

std::optional<PositionMask> position_mask(const ir::Value& value, const IndexMap& map) {
  const ir::Node& n = *value.node;
  if (view_kind(n) != ViewKind::none) return position_mask(n.inputs[0], through_view(n, map));
  if (n.op != op::compare) return std::nullopt;
  auto left = affine(n.inputs[0], map, kDepthMax);
  const auto right = affine(n.inputs[1], map, kDepthMax);
  if (!left || !right) return std::nullopt;
  left->add(*right, -1);
  // As `0 <= difference`.
  const std::string_view direction = n.attrs.text("direction");
  Affine difference;
  difference.add(*left, direction == "GE" || direction == "GT" ? 1 : -1);
  if (direction == "GT" || direction == "LT") {
    difference.offset -= 1;
  } else if (direction != "GE" && direction != "LE") {
    return std::nullopt;
  }
  PositionMask out{.offset = difference.offset};
  for (auto [dim, scale] : difference.by) {
    int& side = scale < 0 ? out.key : out.query;
    if (std::abs(scale) != 1 || side >= 0) return std::nullopt;
    side = dim;
  }
  return out.key < 0 ? std::nullopt : std::optional(out);
}

}  // namespace trine::compile
