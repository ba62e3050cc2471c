// One test for values that are the same number everywhere.
#include "ir/constant.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/number/scalar.h"
#include "ir/op_ids.h"

namespace trine::ir {

TEST_CASE("a splat is a constant of equal elements, spread or not") {
  Graph g;
  Tensor many = Tensor::make(Dtype::f32, {3});
  std::fill_n(many.view().as<float>(), 3, 1.5f);
  const Value all = g.constant(many);
  CHECK(splat(all) == 1.5);
  const Value spread =
      g.add1(op::broadcast_in_dim, {all}, tensor_type(Dtype::f32, {2, 3}), {{"broadcast_dimensions", Ints{1}}});
  CHECK(splat(g.add1(op::reshape, {spread}, tensor_type(Dtype::f32, {6}))) == 1.5);
  Tensor other = Tensor::make(Dtype::f32, {3});
  other.view().as<float>()[2] = -0.0f;  // equal, but not bit by bit
  CHECK_FALSE(splat(g.constant(other)));
  CHECK_FALSE(splat(g.constant(Tensor::make(Dtype::f32, {0}))));
  CHECK_FALSE(splat(g.parameter(tensor_type(Dtype::f32, {}))));
}

TEST_CASE("complex numbers are a splat but no number; conversions are looked through only when asked for") {
  Graph g;
  const Value c = g.constant(Tensor::make(Dtype::c64, {2}));
  CHECK(splat_of(c) != nullptr);
  CHECK_FALSE(splat(c));
  const Value narrow = g.add1(op::convert, {g.constant(scalar(Dtype::f32, 0.1f))}, tensor_type(Dtype::bf16, {}));
  CHECK_FALSE(splat(narrow));
  CHECK(splat_as_written(narrow) == double(0.1f));
}

}  // namespace trine::ir
