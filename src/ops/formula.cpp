// Terms of formulas as nodes, in the words of build.h; see formula.h.
#include "ops/formula.h"

#include "ops/build.h"

namespace trine::ops {

Term Term::of(ir::OpId op) const { return {*graph_, Make(*graph_, where_).op(op, {value_}), where_}; }

Term Term::of(ir::OpId op, const Term& other) const {
  return {*graph_, Make(*graph_, where_).op(op, {value_, other.value_}), where_};
}

Term Term::number(double value) const {
  return {*graph_, Make(*graph_, where_).number(value_.type().dtype, value, value_.type().dims), where_};
}

Term Term::as(Dtype dtype) const { return {*graph_, Make(*graph_, where_).convert(value_, dtype), where_}; }

Term operator+(const Term& a, const Term& b) { return a.of(op::add, b); }
Term operator-(const Term& a, const Term& b) { return a.of(op::subtract, b); }
Term operator*(const Term& a, const Term& b) { return a.of(op::multiply, b); }
Term operator/(const Term& a, const Term& b) { return a.of(op::divide, b); }
Term operator-(const Term& a) { return a.of(op::negate); }
Term abs(const Term& x) { return x.of(op::abs); }
Term exp(const Term& x) { return x.of(op::exponential); }
Term expm1(const Term& x) { return x.of(op::exponential_minus_one); }
Term log(const Term& x) { return x.of(op::log); }
Term log1p(const Term& x) { return x.of(op::log_plus_one); }
Term sqrt(const Term& x) { return x.of(op::sqrt); }
Term tanh(const Term& x) { return x.of(op::tanh); }
Term at_least(double low, const Term& x) { return x.of(op::maximum, x.number(low)); }
Term at_most(double high, const Term& x) { return x.of(op::minimum, x.number(high)); }

std::vector<Term> terms_of(ir::Graph& graph, const ir::Node& node) {
  std::vector<Term> out;
  for (const ir::Value& v : node.inputs)
    out.push_back(Term(graph, v, node.where).as(v.type().dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32));
  return out;
}

std::vector<ir::Value> result_of(const ir::Node& node, const Term& term) {
  return {term.as(node.types[0].dtype).value()};
}

}  // namespace trine::ops
