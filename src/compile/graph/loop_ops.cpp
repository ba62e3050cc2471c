// The rows of tile_rows.h.
#include "compile/graph/loop_ops.h"

#include <algorithm>

#include "compile/graph/complex_parts.h"

namespace trine::compile {

using arch::TileOp;

namespace {

constexpr int kHeavy = 10, kGather = 5;

constexpr TileRow kRows[] = {
    {op::abs, TileOp::abs},
    {op::acos, TileOp::acos, TileOp::count, kHeavy},
    {op::acosh, TileOp::acosh, TileOp::count, kHeavy},
    {op::add, TileOp::add, TileOp::bit_or},
    {op::and_, TileOp::bit_and},
    {op::asin, TileOp::asin, TileOp::count, kHeavy},
    {op::asinh, TileOp::asinh, TileOp::count, kHeavy},
    {op::atan, TileOp::atan, TileOp::count, kHeavy},
    {op::atan2, TileOp::atan2, TileOp::count, kHeavy},
    {op::atanh, TileOp::atanh, TileOp::count, kHeavy},
    {op::bitcast_convert, TileOp::bit_cast},
    {op::cbrt, TileOp::cbrt, TileOp::count, kHeavy},
    {op::ceil, TileOp::ceil},
    {op::clamp, TileOp::clamp, TileOp::count, 2},
    {op::compare, TileOp::eq},
    {op::convert, TileOp::convert},
    {op::cosh, TileOp::cosh, TileOp::count, kHeavy},
    {op::cosine, TileOp::cos, TileOp::count, kHeavy},
    {op::count_leading_zeros, TileOp::clz},
    {op::digamma, TileOp::digamma, TileOp::count, kHeavy},
    {op::divide, TileOp::div, TileOp::count, 5},
    {op::erf, TileOp::erf, TileOp::count, kHeavy},
    {op::erf_inv, TileOp::erf_inv, TileOp::count, kHeavy},
    {op::erfc, TileOp::erfc, TileOp::count, kHeavy},
    {op::exponential, TileOp::exp, TileOp::count, kHeavy},
    {op::exponential_minus_one, TileOp::expm1, TileOp::count, kHeavy},
    {op::floor, TileOp::floor},
    {op::is_finite, TileOp::is_finite},
    {op::lgamma, TileOp::lgamma, TileOp::count, kHeavy},
    {op::log, TileOp::log, TileOp::count, kHeavy},
    {op::log_plus_one, TileOp::log1p, TileOp::count, kHeavy},
    {op::logistic, TileOp::logistic, TileOp::count, kHeavy},
    {op::maximum, TileOp::max},
    {op::minimum, TileOp::min},
    {op::multiply, TileOp::mul, TileOp::bit_and},
    {op::negate, TileOp::neg},
    {op::next_after, TileOp::next_after, TileOp::count, 3},
    {op::not_, TileOp::bit_not},
    {op::or_, TileOp::bit_or},
    {op::popcnt, TileOp::popcount},
    {op::power, TileOp::pow, TileOp::count, kHeavy},
    {op::reduce_precision, TileOp::reduce_precision, TileOp::count, 3},
    {op::remainder, TileOp::rem, TileOp::count, kHeavy},
    {op::round_nearest_afz, TileOp::round_away},
    {op::round_nearest_even, TileOp::round_even},
    {op::rsqrt, TileOp::rsqrt, TileOp::count, kHeavy},
    {op::select, TileOp::select},
    {op::shift_left, TileOp::shl},
    {op::shift_right_arithmetic, TileOp::shr_arith},
    {op::shift_right_logical, TileOp::shr_logical},
    {op::sign, TileOp::sign},
    {op::sine, TileOp::sin, TileOp::count, kHeavy},
    {op::sinh, TileOp::sinh, TileOp::count, kHeavy},
    {op::sqrt, TileOp::sqrt, TileOp::count, 5},
    {op::subtract, TileOp::sub},
    {op::tan, TileOp::tan, TileOp::count, kHeavy},
    {op::tanh, TileOp::tanh, TileOp::count, kHeavy},
    {op::xor_, TileOp::bit_xor},
};
static_assert(std::is_sorted(std::begin(kRows), std::end(kRows),
                             [](const TileRow& a, const TileRow& b) { return a.op < b.op; }));

struct Name {
  std::string_view name;
  TileOp op;
};
constexpr Name kCompares[] = {{"EQ", TileOp::eq}, {"NE", TileOp::ne}, {"LT", TileOp::lt},
                              {"LE", TileOp::le}, {"GT", TileOp::gt}, {"GE", TileOp::ge}};
constexpr Name kReduces[] = {{"add", TileOp::reduce_sum},     {"multiply", TileOp::reduce_prod},
                             {"maximum", TileOp::reduce_max}, {"minimum", TileOp::reduce_min},
                             {"and", TileOp::reduce_and},     {"or", TileOp::reduce_or},
                             {"xor", TileOp::reduce_xor}};

TileOp find(std::span<const Name> names, std::string_view name) {
  for (const Name& n : names)
    if (n.name == name) return n.op;
  return TileOp::count;
}

bool is_in(Dtype dtype, arch::TileTypes types) {
  const Dtype value = arch::tile_value_type(dtype);
  const int bit = is_floating(value) ? 1 : is_integer(value) ? 2 : 4;
  return (int(types) & bit) != 0;
}

bool has_tile_types(const ir::Node& node) {
  for (const ir::Value& v : node.inputs)
    if (v.type().is_token || !arch::is_tile_dtype(v.type().dtype)) return false;
  return node.types.size() == 1 && !node.types[0].is_token && arch::is_tile_dtype(node.types[0].dtype);
}

// Widths must agree, and narrow floats have no bits of their own in a program.
bool is_plain_bitcast(const ir::Node& node) {
  const Dtype from = node.inputs[0].type().dtype, to = node.types[0].dtype;
  auto plain = [](Dtype d) { return d != Dtype::boolean && arch::tile_value_type(d) == d; };
  return bits(from) == bits(to) && plain(from) && plain(to) && node.inputs[0].type().dims == node.types[0].dims;
}

}  // namespace

const TileRow* tile_row(ir::OpId op) {
  auto at = std::lower_bound(std::begin(kRows), std::end(kRows), op,
                             [](const TileRow& r, ir::OpId o) { return r.op < o; });
  return at != std::end(kRows) && at->op == op ? at : nullptr;
}

TileOp tile_compare(std::string_view direction) { return find(kCompares, direction); }
TileOp tile_reduce(std::string_view kind) { return find(kReduces, kind); }

bool is_tile_map(const ir::Node& node) {
  if (is_complex_part(node) || is_complex_pair(node)) return true;
  const TileRow* row = tile_row(node.op);
  if (!row || !has_tile_types(node)) return false;
  if (node.op == op::compare) return tile_compare(node.attrs.text("direction")) != TileOp::count;
  if (node.op == op::bitcast_convert) return is_plain_bitcast(node);
  if (node.op == op::convert || node.op == op::select) return true;
  const Dtype dtype = node.inputs[0].type().dtype;
  const TileOp op = dtype == Dtype::boolean && row->logical != TileOp::count ? row->logical : row->tile;
  return is_in(dtype, arch::row(op).types);
}

bool is_tile_reduce(const ir::Node& node) {
  if (node.op != op::reduce || node.inputs.size() != 2 || !node.regions.empty() ||
      node.attrs.ints("dimensions").empty() || !has_tile_types(node))
    return false;
  const std::string_view kind = node.attrs.text("kind");
  const auto op = ir::OpId::find(kind);
  const TileRow* combine = op ? tile_row(*op) : nullptr;
  if (!combine || tile_reduce(kind) == TileOp::count) return false;
  const Dtype dtype = node.types[0].dtype;
  if (dtype == Dtype::boolean && combine->logical != TileOp::count) return false;
  return is_in(dtype, arch::row(tile_reduce(kind)).types) && is_in(dtype, arch::row(combine->tile).types);
}

int tile_cost(const ir::Node& node) {
  const TileRow* row = tile_row(node.op);
  return row ? row->cost : node.op == op::reduce ? 1 : node.op == op::gather ? kGather : 0;
}

}  // namespace trine::compile
