// Functions that no engine has a table of, by those that one has: trigonometric and hyperbolic ones and their inverses,
// rounding, tests for infinity, batch normalisation. In f32, cast back at the end; see decompose.h.
// Polynomials: S. Moshier, Cephes, single precision.
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile::device {

using ir::Value;

namespace {

constexpr double kPi = std::numbers::pi, kLn2 = std::numbers::ln2;
constexpr double kLarge = 1e9;    // whose square and one are the square
constexpr double kExpAlone = 20;  // from here exp(-x) is lost beside exp(x)

// Short ways to write f32 arithmetic of one shape.
class Floats {
 public:
  Floats(ops::Make& make, const Dims& dims) : make_(make), dims_(dims) {}
  Value number(double v) const { return make_.number(Dtype::f32, v, dims_); }
  Value call(ir::OpId op, const Value& x) const { return make_.op(op, {x}); }
  Value add(const Value& a, const Value& b) const { return make_.op(op::add, {a, b}); }
  Value sub(const Value& a, const Value& b) const { return make_.op(op::subtract, {a, b}); }
  Value mul(const Value& a, const Value& b) const { return make_.op(op::multiply, {a, b}); }
  Value div(const Value& a, const Value& b) const { return make_.op(op::divide, {a, b}); }
  Value pick(const Value& is, const Value& yes, const Value& no) const { return make_.op(op::select, {is, yes, no}); }
  Value less(const Value& a, double b) const { return make_.compare(a, number(b), "LT"); }
  Value more(const Value& a, double b) const { return make_.compare(a, number(b), "GT"); }
  Value signed_as(const Value& x, const Value& size) const { return pick(less(x, 0), call(op::negate, size), size); }
  // Highest power first.
  Value polynomial(const Value& x, std::initializer_list<double> terms) const {
    Value sum = number(*terms.begin());
    for (auto t = terms.begin() + 1; t != terms.end(); ++t) sum = add(mul(sum, x), number(*t));
    return sum;
  }

  // Of a ≥ 0.
  Value atan(const Value& a) const {
    const Value far = more(a, 2.414213562), near = less(a, 0.4142135624), one = number(1);
    const Value middle = div(sub(a, one), add(a, one));
    const Value t = pick(far, call(op::negate, div(one, a)), pick(near, a, middle));
    const Value from = pick(far, number(kPi / 2), pick(near, number(0), number(kPi / 4)));
    const Value z = mul(t, t);
    const Value p = polynomial(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1});
    return add(from, add(mul(mul(p, z), t), t));
  }

  // asin(s) of s in 0 … 1/2, z = s².
  Value asin_near(const Value& s, const Value& z) const {
    const Value p =
        polynomial(z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1});
    return add(s, mul(mul(s, z), p));
  }
  // Of a beyond 1/2: twice what asin of the half angle is.
  Value asin_far(const Value& a) const {
    const Value z = make_.op(op::maximum, {mul(sub(number(1), a), number(0.5)), number(0)});
    return mul(number(2), asin_near(call(op::sqrt, z), z));
  }
  Value nan_where(const Value& is, const Value& x) const { return pick(is, number(NAN), x); }

 private:
  ops::Make& make_;
  const Dims& dims_;
};

using Function = Value (*)(const Floats&, const Value&);

Value tan(const Floats& f, const Value& x) { return f.div(f.call(op::sine, x), f.call(op::cosine, x)); }

// Near zero, where the others lose digits: a + a³·p(a²).
Value odd(const Floats& f, const Value& a, std::initializer_list<double> terms) {
  const Value z = f.mul(a, a);
  return f.add(a, f.mul(f.mul(f.polynomial(z, terms), z), a));
}

Value sinh(const Floats& f, const Value& x) {
  const Value a = f.call(op::abs, x), e = f.call(op::exponential, a);
  const Value near = odd(f, a, {2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1});
  const Value middle = f.mul(f.sub(e, f.div(f.number(1), e)), f.number(0.5));
  const Value large = f.call(op::exponential, f.sub(a, f.number(kLn2)));
  return f.signed_as(x, f.pick(f.less(a, 1), near, f.pick(f.more(a, kExpAlone), large, middle)));
}

Value cosh(const Floats& f, const Value& x) {
  const Value a = f.call(op::abs, x), e = f.call(op::exponential, a);
  const Value small = f.mul(f.add(e, f.div(f.number(1), e)), f.number(0.5));
  return f.pick(f.more(a, kExpAlone), f.call(op::exponential, f.sub(a, f.number(kLn2))), small);
}

Value asinh(const Floats& f, const Value& x) {
  const Value a = f.call(op::abs, x);
  const Value near = odd(f, a, {2.0122003309e-2, -4.2699340972e-2, 7.4847586088e-2, -1.6666288134e-1});
  const Value middle = f.call(op::log, f.add(a, f.call(op::sqrt, f.add(f.mul(a, a), f.number(1)))));
  const Value large = f.add(f.call(op::log, a), f.number(kLn2));
  return f.signed_as(x, f.pick(f.less(a, 0.5), near, f.pick(f.more(a, kLarge), large, middle)));
}

Value acosh(const Floats& f, const Value& x) {
  const Value t = f.sub(x, f.number(1));
  const Value p = f.polynomial(t, {1.7596881071e-3, -7.5272886713e-3, 2.6454905019e-2, -1.1784741703e-1, 1.4142135263});
  const Value near = f.mul(p, f.call(op::sqrt, t));
  const Value middle = f.call(op::log, f.add(x, f.call(op::sqrt, f.mul(t, f.add(x, f.number(1))))));
  const Value large = f.add(f.call(op::log, x), f.number(kLn2));
  return f.nan_where(f.less(x, 1), f.pick(f.less(t, 0.5), near, f.pick(f.more(x, kLarge), large, middle)));
}

Value atanh(const Floats& f, const Value& x) {
  const Value a = f.call(op::abs, x), one = f.number(1);
  const Value near =
      odd(f, a, {1.81740078349e-1, 8.24370301058e-2, 1.46691431730e-1, 1.99782164500e-1, 3.33337300303e-1});
  const Value far = f.mul(f.number(0.5), f.call(op::log, f.div(f.add(one, a), f.sub(one, a))));
  return f.nan_where(f.more(a, 1), f.signed_as(x, f.pick(f.less(a, 0.5), near, far)));
}

Value atan(const Floats& f, const Value& x) { return f.signed_as(x, f.atan(f.call(op::abs, x))); }

Value asin(const Floats& f, const Value& x) {
  const Value a = f.call(op::abs, x);
  const Value size = f.pick(f.more(a, 0.5), f.sub(f.number(kPi / 2), f.asin_far(a)), f.asin_near(a, f.mul(a, a)));
  return f.nan_where(f.more(a, 1), f.signed_as(x, size));
}

Value acos(const Floats& f, const Value& x) {
  const Value a = f.call(op::abs, x), far = f.asin_far(a);
  const Value near = f.sub(f.number(kPi / 2), f.signed_as(x, f.asin_near(a, f.mul(a, a))));
  const Value beyond = f.pick(f.less(x, 0), f.sub(f.number(kPi), far), far);
  return f.nan_where(f.more(a, 1), f.pick(f.more(a, 0.5), beyond, near));
}

// Halves away from zero.
Value round_away(const Floats& f, const Value& x) {
  const Value a = f.call(op::abs, x), whole = f.call(op::floor, a);
  const Value down = f.less(f.sub(a, whole), 0.5);
  const Value up = f.pick(f.less(a, 0x1p23), f.add(whole, f.number(1)), a);  // above there are no halves; NaN stays
  return f.signed_as(x, f.pick(down, whole, up));
}

struct FunctionRow {
  ir::OpId op;
  Function make;
};
constexpr FunctionRow kFunctions[] = {
    {op::acos, acos},   {op::acosh, acosh}, {op::asin, asin}, {op::asinh, asinh}, {op::atan, atan},
    {op::atanh, atanh}, {op::cosh, cosh},   {op::sinh, sinh}, {op::tan, tan},     {op::round_nearest_afz, round_away}};

bool is_device_float(Dtype d) { return is_floating(d) && device_dtype(d); }

}  // namespace

ir::Replacement function_by_others(ir::Graph& graph, const ir::Node& node) {
  for (const FunctionRow& row : kFunctions) {
    if (row.op != node.op) continue;
    const Dtype dtype = node.inputs[0].type().dtype;
    if (!is_device_float(dtype)) return {};
    ops::Make make(graph, node.where);
    const Floats f(make, node.types[0].dims);
    return {make.convert(row.make(f, make.convert(node.inputs[0], Dtype::f32)), dtype)};
  }
  return {};
}

// By the smaller over the larger coordinate, then the octant; signs of zeros count.
ir::Replacement atan2_by_octants(ir::Graph& graph, const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  if (!is_device_float(dtype)) return {};
  ops::Make make(graph, node.where);
  const Floats f(make, node.types[0].dims);
  const Value y = make.convert(node.inputs[0], Dtype::f32), x = make.convert(node.inputs[1], Dtype::f32);
  const Value ay = f.call(op::abs, y), ax = f.call(op::abs, x);
  const Value low = make.op(op::minimum, {ay, ax}), high = make.op(op::maximum, {ay, ax});
  const Value same = make.compare(low, high, "EQ");  // also both zero or both infinite
  const Value both_zero = make.compare(high, f.number(0), "EQ");
  const Value ratio = f.pick(both_zero, f.number(0), f.pick(same, f.number(1), f.div(low, high)));
  const Value zero = make.number(Dtype::s32, 0, node.types[0].dims);
  const auto negative = [&](const Value& v) { return make.compare(make.bits(v, Dtype::s32), zero, "LT"); };
  Value angle = f.atan(ratio);
  angle = f.pick(make.compare(ay, ax, "GT"), f.sub(f.number(kPi / 2), angle), angle);
  angle = f.pick(negative(x), f.sub(f.number(kPi), angle), angle);
  return {make.convert(f.pick(negative(y), f.call(op::negate, angle), angle), dtype)};
}

ir::Replacement infinite_by_compare(ir::Graph& graph, const ir::Node& node) {
  if (!is_device_float(node.inputs[0].type().dtype)) return {};
  ops::Make make(graph, node.where);
  Value x = make.convert(node.inputs[0], Dtype::f32);
  if (node.op == op::is_inf) x = make.op(op::abs, {x});
  const double wanted = node.op == op::is_neg_inf ? -HUGE_VAL : HUGE_VAL;
  return {make.compare(x, make.number(Dtype::f32, wanted, x.type().dims), "EQ")};
}

// training: x, scale, offset. inference: with mean and variance. grad: x, scale, mean, variance, gradient.
ir::Replacement batch_norm_by_parts(ir::Graph& graph, const ir::Node& node) {
  const Dims& dims = node.types[0].dims;
  for (const Value& v : node.inputs)
    if (!is_device_float(v.type().dtype)) return {};
  ops::Make make(graph, node.where);
  const int64_t feature = node.attrs.integer("feature_index"), features = dims[size_t(feature)];
  const Floats f(make, dims), own(make, node.inputs[1].type().dims);
  if (node.types[0].elements() == 0) {
    if (features) return {};  // a mean of nothing
    ops::Values none;
    for (const ir::Type& t : node.types) none.push_back(make.number(t.dtype, 0, t.dims));
    return none;
  }
  const double count = double(node.types[0].elements() / features);
  const auto in = [&](size_t i) { return make.convert(node.inputs[i], Dtype::f32); };
  const auto spread = [&](const Value& v) { return make.broadcast(v, dims, {feature}); };
  const auto total = [&](Value v) {
    for (int64_t d = int64_t(dims.size()); d-- > 0;)
      if (d != feature) v = make.reduce(v, "add", {d});
    return v;
  };
  const auto inverse = [&](const Value& variance) {
    return own.call(op::rsqrt, own.add(variance, own.number(node.attrs.real("epsilon"))));
  };
  const auto back = [&](const Value& v, size_t i) { return make.convert(v, node.types[i].dtype); };
  const Value x = in(0), scale = in(1), each = own.number(1 / count);
  if (node.op == op::batch_norm_grad) {
    const Value gradient = in(4), by = inverse(in(3));
    const Value normal = f.mul(f.sub(x, spread(in(2))), spread(by));
    const Value sum = total(gradient), product = total(f.mul(gradient, normal));
    const Value rest =
        f.sub(f.sub(gradient, spread(own.mul(sum, each))), f.mul(normal, spread(own.mul(product, each))));
    return {back(f.mul(spread(own.mul(scale, by)), rest), 0), back(product, 1), back(sum, 2)};
  }
  const bool training = node.op == op::batch_norm_training;
  const Value mean = training ? own.mul(total(x), each) : in(3);
  const Value apart = f.sub(x, spread(mean));
  const Value variance = training ? own.mul(total(f.mul(apart, apart)), each) : in(4);
  const Value out = f.add(f.mul(apart, spread(own.mul(scale, inverse(variance)))), spread(in(2)));
  if (!training) return {back(out, 0)};
  return {back(out, 0), back(mean, 1), back(variance, 2)};
}

}  // namespace trine::compile::device
