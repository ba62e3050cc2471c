// Ranges hold what a program computes, rounding and wrapping included, and stay unknown where nothing is known.
#include "compile/graph/range.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/number/scalar.h"
#include "ir/op_ids.h"

namespace trine::compile {

namespace {

struct Graph : ir::Graph {
  ir::Value x(Dtype d) { return parameter(ir::tensor_type(d, {6})); }
  ir::Value iota(Dtype d) { return add1(op::iota, {}, ir::tensor_type(d, {6}), {{"iota_dimension", int64_t{0}}}); }
  ir::Value number(Dtype d, double v) {
    return add1(op::broadcast_in_dim, {constant(scalar(d, v))}, ir::tensor_type(d, {6}),
                {{"broadcast_dimensions", ir::Ints{}}});
  }
  ir::Value two(ir::OpId op, const ir::Value& a, const ir::Value& b) { return add1(op, {a, b}, a.type()); }
  ir::Value cast(const ir::Value& v, Dtype d) { return add1(op::convert, {v}, ir::tensor_type(d, {6})); }
};

void check(const ir::Value& v, double low, double high) {
  const Range r = range_of(v);
  CHECK(r.low == low);
  CHECK(r.high == high);
  CHECK_FALSE(r.may_be_nan);
}

}  // namespace

TEST_CASE("an unknown value has all that its dtype holds") {
  Graph g;
  check(g.x(Dtype::u8), 0, 255);
  check(g.x(Dtype::boolean), 0, 1);
  CHECK(range_of(g.x(Dtype::f32)).size() == HUGE_VAL);
  CHECK(range_of(g.number(Dtype::f32, NAN)).size() == HUGE_VAL);
}

TEST_CASE("sums, products and views of indices") {
  Graph g;
  const ir::Value i = g.iota(Dtype::s64);
  check(i, 0, 5);
  check(g.two(op::add, g.two(op::multiply, i, g.number(Dtype::s64, 7)), g.number(Dtype::s64, 3)), 3, 38);
  check(g.two(op::subtract, i, g.number(Dtype::s64, 2)), -2, 3);
  check(g.add1(op::reshape, {i}, ir::tensor_type(Dtype::s64, {2, 3})), 0, 5);
}

TEST_CASE("what may wrap is unknown") {
  Graph g;
  const ir::Value i = g.iota(Dtype::u8);
  check(g.two(op::multiply, i, g.number(Dtype::u8, 51)), 0, 255);  // 255 still fits
  check(g.two(op::multiply, i, g.number(Dtype::u8, 52)), 0, 255);  // 260 does not: all of u8
  check(g.two(op::subtract, i, g.number(Dtype::u8, 1)), 0, 255);   // -1 does not
  check(g.add1(op::negate, {g.x(Dtype::s8)}, ir::tensor_type(Dtype::s8, {6})), -128, 127);
  check(g.cast(g.number(Dtype::s32, 300), Dtype::u8), 0, 255);
  check(g.cast(g.number(Dtype::s32, 200), Dtype::u8), 200, 200);
}

TEST_CASE("whole numbers beyond 2^53 are no doubles: unknown") {
  Graph g;
  const double all = row(Dtype::u64).max_finite;
  check(g.two(op::multiply, g.number(Dtype::u64, 0x1p30), g.number(Dtype::u64, 0x1p20)), 0x1p50, 0x1p50);
  check(g.two(op::multiply, g.number(Dtype::u64, 0x1p30), g.number(Dtype::u64, 0x1p30)), 0, all);
}

TEST_CASE("floats: rounded outward by their format, infinite where they overflow") {
  Graph g;
  check(g.cast(g.x(Dtype::u8), Dtype::f32), 0, 255);
  check(g.cast(g.x(Dtype::u32), Dtype::bf16), 0, 0x1p32);
  CHECK(range_of(g.cast(g.x(Dtype::u32), Dtype::f16)).size() == HUGE_VAL);
  const ir::Value large = g.number(Dtype::f32, 3e38);
  CHECK(range_of(g.two(op::multiply, large, large)).size() == HUGE_VAL);
  // An overflow between is not undone.
  CHECK(range_of(g.two(op::divide, g.two(op::multiply, large, large), large)).size() == HUGE_VAL);
  check(g.two(op::multiply, g.number(Dtype::f32, -3), g.cast(g.x(Dtype::boolean), Dtype::f32)), -3, 0);
}

TEST_CASE("a quotient is known where the divisor is held away from zero") {
  Graph g;
  const ir::Value x = g.x(Dtype::f32), one = g.number(Dtype::f32, 1), half = g.number(Dtype::f32, 0.5);
  check(g.two(op::divide, one, g.two(op::maximum, x, half)), 0, 2);
  CHECK(range_of(g.two(op::divide, one, x)).size() == HUGE_VAL);
  CHECK(range_of(g.two(op::divide, x, half)).size() == HUGE_VAL);
  CHECK(range_of(g.two(op::maximum, x, half)).size() == HUGE_VAL);
  check(g.add1(op::select, {g.x(Dtype::boolean), one, half}, x.type()), 0.5, 1);
}

TEST_CASE("a chain that doubles itself ends") {
  Graph g;
  ir::Value v = g.iota(Dtype::f32);
  for (int i = 0; i < 100; ++i) v = g.two(op::add, v, v);
  CHECK(range_of(v).size() == HUGE_VAL);
}

}  // namespace trine::compile
