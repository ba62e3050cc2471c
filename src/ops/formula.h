// Functions of floats given by a formula: one generic lambda is the op's reference meaning, on doubles, and its
// decomposition, on terms of a graph. So such an op is as fast as what it is made of, on the host and on the device.
// A decomposition computes in f32, of f64 in f64, and rounds to the node's dtype once.
#pragma once

#include <cmath>

#include "ops/elementwise.h"

namespace trine::ops {

// A value of a graph that arithmetic makes nodes of. Numbers beside it are of its dtype and dims.
class Term {
 public:
  Term(ir::Graph& graph, ir::Value value, uint32_t where) : graph_(&graph), value_(value), where_(where) {}
  const ir::Value& value() const { return value_; }

  Term of(ir::OpId op) const;                     // op(this)
  Term of(ir::OpId op, const Term& other) const;  // op(this, other)
  Term number(double value) const;
  Term as(Dtype dtype) const;

 private:
  ir::Graph* graph_;
  ir::Value value_;
  uint32_t where_;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator-(const Term& a);
inline Term operator+(const Term& a, double b) { return a + a.number(b); }
inline Term operator-(const Term& a, double b) { return a - a.number(b); }
inline Term operator*(const Term& a, double b) { return a * a.number(b); }
inline Term operator/(const Term& a, double b) { return a / a.number(b); }
inline Term operator+(double a, const Term& b) { return b.number(a) + b; }
inline Term operator-(double a, const Term& b) { return b.number(a) - b; }
inline Term operator*(double a, const Term& b) { return b.number(a) * b; }
inline Term operator/(double a, const Term& b) { return b.number(a) / b; }
Term abs(const Term& x);
Term exp(const Term& x);
Term expm1(const Term& x);
Term log(const Term& x);
Term log1p(const Term& x);
Term sqrt(const Term& x);
Term tanh(const Term& x);
// Bounded from one side; NaN stays.
Term at_least(double low, const Term& x);
Term at_most(double high, const Term& x);
inline double at_least(double low, double x) { return x < low ? low : x; }
inline double at_most(double high, double x) { return x > high ? high : x; }

// The node's inputs as terms of f32 or f64, and a term as its result.
std::vector<Term> terms_of(ir::Graph& graph, const ir::Node& node);
std::vector<ir::Value> result_of(const ir::Node& node, const Term& term);

template <class F>
std::vector<ir::Value> by_formula(ir::Graph& graph, const ir::Node& node) {
  const std::vector<Term> in = terms_of(graph, node);
  if constexpr (std::is_invocable_v<F, Term>) {
    return result_of(node, F{}(in[0]));
  } else {
    return result_of(node, F{}(in[0], in[1]));
  }
}

// The row of a function of one or two floats.
template <class F>
constexpr Op formula(std::string_view name, F, const Columns& columns = {}) {
  constexpr auto kMeaning = []<Floating... T>(T... x) -> double
    requires std::is_invocable_v<F, T...>
  { return F{}(x...); };
  constexpr size_t kInputs = std::is_invocable_v<F, double> ? 1 : 2;
  Op row = elementwise<kInputs, decltype(kMeaning)>(name, columns);
  row.decompose = by_formula<F>;
  return row;
}

}  // namespace trine::ops
