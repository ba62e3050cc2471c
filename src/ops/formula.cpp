// Terms of formulas as nodes; see formula.h. What an op refuses here is a formula's bug.
#include "ops/formula.h"

#include "base/number/scalar.h"
#include "ir/op_ids.h"

namespace trine::ops {

namespace {

ir::Value made(ir::Graph& graph, ir::Spec spec) {
  auto node = make(graph, std::move(spec));
  CHECK(node, "a formula that its ops take");
  return (*node)->result();
}

}  // namespace

Term Term::of(ir::OpId op) const {
  return {*graph_, made(*graph_, {.op = op, .inputs = {value_}, .where = where_}), where_};
}

Term Term::of(ir::OpId op, const Term& other) const {
  return {*graph_, made(*graph_, {.op = op, .inputs = {value_, other.value_}, .where = where_}), where_};
}

Term Term::number(double value) const {
  const ir::Type& type = value_.type();
  const ir::Value one = graph_->constant(scalar(type.dtype, value), where_);
  if (type.dims.empty()) return {*graph_, one, where_};
  return {*graph_,
          made(*graph_, {.op = op::broadcast_in_dim,
                         .inputs = {one},
                         .attrs = {{"broadcast_dimensions", ir::Ints{}}},
                         .types = {type},
                         .where = where_}),
          where_};
}

Term Term::as(Dtype dtype) const {
  const ir::Type& type = value_.type();
  if (type.dtype == dtype) return *this;
  return {*graph_,
          made(*graph_,
               {.op = op::convert, .inputs = {value_}, .types = {ir::tensor_type(dtype, type.dims)}, .where = where_}),
          where_};
}

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
