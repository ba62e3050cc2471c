// Interval arithmetic, from the ends. Every result passes through held(), which rounds as the dtype does or, where an
// integer may wrap, gives up.
#include "compile/graph/range.h"

#include <algorithm>
#include <cmath>

#include "base/number/scalar.h"
#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::compile {

namespace {

using ir::Node;
using ir::Value;

constexpr double kExact = 0x1p53;  // whole numbers up to here are doubles

bool is_whole(Dtype d) { return is_integer(d) || d == Dtype::boolean; }

Range all_of(Dtype d) {
  if (is_whole(d)) return {row(d).min_finite, row(d).max_finite};
  return {-HUGE_VAL, HUGE_VAL, true};
}

Range held(const Range& r, Dtype d) {
  const Range all = all_of(d);
  if (is_whole(d)) return r.low >= all.low && r.high <= all.high && r.size() <= kExact ? r : all;
  if (!is_floating(d)) return all;
  const Range rounded = {number(scalar(d, r.low)), number(scalar(d, r.high)), r.may_be_nan};
  return rounded.low <= rounded.high ? rounded : all;  // a format without infinities makes a NaN of one
}

Range both(const Range& a, const Range& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan};
}

class Finder {
 public:
  Range of(const Value& v) {
    const Node& n = *v.node;
    const Dtype dtype = v.type().dtype;
    if (const auto number = ir::splat(v)) return held({*number, *number, std::isnan(*number)}, dtype);
    if (seen_++ >= kSeenMax) return all_of(dtype);
    if (n.op == op::iota) {
      const int64_t size = v.type().dims[size_t(n.attrs.integer("iota_dimension"))];
      return held({0, double(std::max<int64_t>(size - 1, 0))}, dtype);
    }
    if (n.op == op::broadcast_in_dim || n.op == op::reshape) return of(n.inputs[0]);
    if (n.op == op::convert) return converted(of(n.inputs[0]), n.inputs[0].type().dtype, dtype);
    if (n.op == op::select) return both(of(n.inputs[1]), of(n.inputs[2]));
    if (n.op == op::negate || n.op == op::abs) return held(one(n.op, of(n.inputs[0])), dtype);
    if (n.op == op::add || n.op == op::subtract || n.op == op::multiply || n.op == op::divide || n.op == op::maximum)
      return two(n.op, of(n.inputs[0]), of(n.inputs[1]), dtype);
    return all_of(dtype);
  }

 private:
  static Range converted(const Range& r, Dtype from, Dtype to) {
    if (is_complex(from) || is_complex(to) || to == Dtype::boolean) return all_of(to);
    if (is_floating(from) && is_whole(to))  // a NaN becomes some number
      return r.may_be_nan ? all_of(to) : held({std::trunc(r.low), std::trunc(r.high)}, to);
    return held(r, to);
  }

  static Range one(ir::OpId op, const Range& r) {
    if (op == op::negate) return {-r.high, -r.low, r.may_be_nan};
    const double least = r.low > 0 ? r.low : r.high < 0 ? -r.high : 0;
    return {least, std::max(-r.low, r.high), r.may_be_nan};
  }

  static Range two(ir::OpId op, const Range& a, const Range& b, Dtype dtype) {
    if (op == op::maximum) return {std::max(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan};
    if (op == op::divide) {
      // A divisor that is a NaN is left out: sums divided by a count that is held at 1 or more are what this is for.
      if (is_whole(dtype) || std::isinf(a.size()) || !(b.low > 0)) return all_of(dtype);
      return held({std::min(a.low / b.low, a.low / b.high), std::max(a.high / b.low, a.high / b.high)}, dtype);
    }
    if (std::isinf(a.size()) || std::isinf(b.size())) return all_of(dtype);
    if (op == op::add) return held({a.low + b.low, a.high + b.high}, dtype);
    if (op == op::subtract) return held({a.low - b.high, a.high - b.low}, dtype);
    const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
    return held({low, high}, dtype);
  }

  static constexpr int kSeenMax = 256;  // values looked at for one answer: a chain that doubles itself ends
  int seen_ = 0;
};

}  // namespace

double Range::size() const { return may_be_nan ? HUGE_VAL : std::max(std::fabs(low), std::fabs(high)); }

Range range_of(const Value& value) { return Finder().of(value); }

}  // namespace trine::compile
