// Formulas as the ops' meanings have them; where a square could leave the range, powers of two bring it back exactly.
#include "compile/graph/complex_parts.h"

#include <cmath>
#include <limits>

#include "base/number/number.h"
#include "compile/graph/index_map.h"
#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile {

using ir::Graph;
using ir::Node;
using ir::Replacement;
using ir::Value;

namespace {

bool has_complex(const Value& v) { return !v.type().is_token && is_complex(v.type().dtype); }

struct Pair {
  Value re = {}, im = {};
};

class Parts {
 public:
  Parts(Graph& graph, const Node& node) : g_(graph), node_(node), make_(graph, node.where) {}

  Replacement all() {
    if (node_.types.size() != 1 || node_.types[0].is_token || is_complex_pair(node_)) return {};
    if (node_.op == op::select) return has_complex(node_.inputs[1]) ? put(selected()) : Replacement{};
    if (node_.op == op::reduce) return summed();
    if (view_kind(node_) != ViewKind::none && node_.op != op::reshape && has_complex(node_.inputs[0]))
      return put(viewed());
    if (node_.inputs.size() == 1) return of_one();
    if (node_.inputs.size() == 2) return of_two();
    return {};
  }

 private:
  Replacement of_one() {
    const Value x = node_.inputs[0];
    if (node_.op == op::convert) return converted(x);
    if (!has_complex(x)) return {};
    if (is_complex_part(node_)) {
      const Value part = this->part(x, node_.op == op::imag);
      return part.node == &node_ ? Replacement{} : Replacement{part};
    }
    if (node_.op == op::abs) return {length(both(x))};
    if (node_.op == op::negate) return put({add(op::negate, re(x)), add(op::negate, im(x))});
    if (node_.op == op::conj) return put({re(x), add(op::negate, im(x))});
    if (node_.op == op::sign) return put(direction(both(x)));
    if (node_.op == op::exponential) return put(exponential(both(x)));
    return {};
  }
  Replacement of_two() {
    const Value a = node_.inputs[0], b = node_.inputs[1];
    if (!has_complex(a) || !has_complex(b)) return {};
    // Of 64 bits the op's own loop is quicker: those of parts have no machine code.
    if (a.type().dtype == Dtype::c128 && node_.op != op::compare) return {};
    if (node_.op == op::add || node_.op == op::subtract)
      return put({add(node_.op, re(a), re(b)), add(node_.op, im(a), im(b))});
    if (node_.op == op::multiply) return put(product(both(a), both(b)));
    if (node_.op == op::divide) return put(quotient(both(a), both(b)));
    if (node_.op != op::compare) return {};
    const std::string direction(node_.attrs.text("direction"));
    if (direction != "EQ" && direction != "NE") return {};
    const Value same = compared(re(a), re(b), direction), other = compared(im(a), im(b), direction);
    return {add(direction == "EQ" ? op::and_ : op::or_, same, other)};
  }

  Replacement put(const Pair& p) { return {g_.add1(op::complex, {p.re, p.im}, node_.types[0], {}, node_.where)}; }
  Value re(const Value& v) { return part(v, false); }
  Value im(const Value& v) { return part(v, true); }
  Pair both(const Value& v) { return {re(v), im(v)}; }

  // A part of a complex value, as near to where it comes from as it is known there.
  Value part(const Value& v, bool imag) {
    const Node& from = *v.node;
    if (is_complex_pair(from)) return from.inputs[imag];
    const ir::Type type = ir::tensor_type(row(v.type().dtype).element, v.type().dims);
    if (from.op == op::constant) return g_.constant(part_of(*from.attrs.tensor("value"), imag), from.where);
    if (from.op == op::reshape || from.op == op::broadcast_in_dim)
      return g_.add1(from.op, {part(from.inputs[0], imag)}, type, from.attrs, from.where);
    return g_.add1(imag ? op::imag : op::real, {v}, type, {}, node_.where);
  }
  static Tensor part_of(const Tensor& whole, bool imag) {
    Tensor out = Tensor::make(row(whole.dtype).element, whole.dims);
    const size_t each = size_t(bytes(out.dtype));
    for (size_t i = 0; i < size_t(element_count(whole.dims)); ++i)
      std::copy_n(whole.data.get() + (2 * i + imag) * each, each, out.data.get() + i * each);
    return out;
  }

  // --- one node each, of the type of its first input

  template <class... V>
  Value add(ir::OpId op, const Value& a, const V&... rest) {
    return g_.add1(op, {a, rest...}, a.type(), {}, node_.where);
  }
  Value compared(const Value& a, const Value& b, std::string_view direction) { return make_.compare(a, b, direction); }
  Value selected(const Value& p, const Value& a, const Value& b) {
    return g_.add1(op::select, {p, a, b}, a.type(), {}, node_.where);
  }
  Value number(double x, const ir::Type& type) { return make_.number(type.dtype, x, type.dims); }
  Value like(double x, const Value& v) { return number(x, v.type()); }
  Value is_equal(const Value& v, double x) { return compared(v, like(x, v), "EQ"); }
  static constexpr double kInf = std::numeric_limits<double>::infinity();
  Value is_infinite(const Value& v) { return is_equal(add(op::abs, v), kInf); }
  Value is_number(const Value& v) { return compared(v, v, "EQ"); }

  // --- ops

  Pair selected() {
    const Value &p = node_.inputs[0], &a = node_.inputs[1], &b = node_.inputs[2];
    return {selected(p, re(a), re(b)), selected(p, im(a), im(b))};
  }
  Pair viewed() {
    const ir::Type type = ir::tensor_type(row(node_.types[0].dtype).element, node_.types[0].dims);
    auto view = [&](const Value& v) { return g_.add1(node_.op, {v}, type, node_.attrs, node_.where); };
    return {view(re(node_.inputs[0])), view(im(node_.inputs[0]))};
  }
  Replacement summed() {
    if (node_.inputs.size() != 2 || !node_.regions.empty() || !has_complex(node_.inputs[0]) ||
        node_.attrs.text("kind") != "add")
      return {};
    const ir::Type type = ir::tensor_type(row(node_.types[0].dtype).element, node_.types[0].dims);
    auto sum = [&](bool imag) {
      return g_.add1(op::reduce, {part(node_.inputs[0], imag), part(node_.inputs[1], imag)}, type, node_.attrs,
                     node_.where);
    };
    return put({sum(false), sum(true)});
  }
  Replacement converted(const Value& x) {
    const Dtype to = node_.types[0].dtype;
    if (is_complex(to)) {
      const Dtype element = row(to).element;
      if (has_complex(x)) return put({make_.convert(re(x), element), make_.convert(im(x), element)});
      const Value whole = make_.convert(x, element);
      return put({whole, like(0, whole)});
    }
    if (!has_complex(x)) return {};
    if (to == Dtype::boolean)
      return {add(op::or_, compared(re(x), like(0, re(x)), "NE"), compared(im(x), like(0, im(x)), "NE"))};
    return {make_.convert(re(x), to)};
  }

  Pair product(const Pair& a, const Pair& b) {
    return {add(op::subtract, add(op::multiply, a.re, b.re), add(op::multiply, a.im, b.im)),
            add(op::add, add(op::multiply, a.re, b.im), add(op::multiply, a.im, b.re))};
  }

  // A power of two that brings the larger of two lengths near one, and its inverse.
  struct Scale {
    Value by = {}, back = {};
  };
  Scale scale_of(const Value& size) {
    const bool is_wide = size.type().dtype == Dtype::f64;
    const Dtype whole = is_wide ? Dtype::s64 : Dtype::s32;
    const int digits = is_wide ? 52 : 23, bias = is_wide ? 1023 : 127, up = bias - 1, down = is_wide ? 1000 : 120;
    auto field = [&](int exponent) {
      return number(std::ldexp(double(exponent), digits), ir::tensor_type(whole, size.type().dims));
    };
    Value power = add(op::and_, make_.bits(size, whole), field(2 * bias + 1));
    power = add(op::minimum, add(op::maximum, power, field(bias - down)), field(bias + up));
    return {make_.bits(add(op::subtract, field(2 * bias), power), size.type().dtype),
            make_.bits(power, size.type().dtype)};
  }
  Value larger(const Pair& x) { return add(op::maximum, add(op::abs, x.re), add(op::abs, x.im)); }
  Value length(const Pair& x) {
    const Scale scale = scale_of(larger(x));
    const Value a = add(op::multiply, x.re, scale.by), b = add(op::multiply, x.im, scale.by);
    const Value root = add(op::sqrt, add(op::add, add(op::multiply, a, a), add(op::multiply, b, b)));
    // Infinity has a length whatever the other part is.
    return selected(add(op::or_, is_infinite(x.re), is_infinite(x.im)), like(kInf, root),
                    add(op::multiply, root, scale.back));
  }
  Pair direction(const Pair& x) {
    const Value size = length(x), none = add(op::and_, is_equal(x.re, 0), is_equal(x.im, 0));
    return {selected(none, like(0, size), add(op::divide, x.re, size)),
            selected(none, like(0, size), add(op::divide, x.im, size))};
  }

  // The divisor is brought near one, the other away from the ends of the range; then infinities and zero as C has them.
  Pair quotient(const Pair& x, const Pair& y) {
    const Scale of_y = scale_of(larger(y));
    const Value size = larger(x), one = like(1, size);
    const double top = size.type().dtype == Dtype::f64 ? 0x1p1000 : 0x1p100, end = 0x1p60;
    const Value is_large = compared(size, like(top, size), "GT"), is_small = compared(size, like(1 / end, size), "LT");
    auto either = [&](double large, double small) {
      return selected(is_large, like(large, size), selected(is_small, like(small, size), one));
    };
    const Value by = either(0x1p-4, end), back = either(0x1p4, 1 / end);
    auto scaled = [&](const Pair& p, const Value& f) {
      return Pair{add(op::multiply, p.re, f), add(op::multiply, p.im, f)};
    };
    const Pair a = scaled(x, by), b = scaled(y, of_y.by);
    const Value square = add(op::add, add(op::multiply, b.re, b.re), add(op::multiply, b.im, b.im));
    auto finish = [&](const Value& v) {
      return add(op::multiply, add(op::multiply, add(op::divide, v, square), of_y.by), back);
    };
    const Pair plain = {finish(add(op::add, add(op::multiply, a.re, b.re), add(op::multiply, a.im, b.im))),
                        finish(add(op::subtract, add(op::multiply, a.im, b.re), add(op::multiply, a.re, b.im)))};
    return recovered(x, a, y, plain);
  }
  Value truth(const Value& p, const Value& like_this) { return selected(p, like(1, like_this), like(0, like_this)); }
  Value with_sign(const Value& size, const Value& sign) {
    const bool is_wide = sign.type().dtype == Dtype::f64;
    const Dtype whole = is_wide ? Dtype::s64 : Dtype::s32;
    const Value bits = make_.bits(sign, whole);
    return selected(compared(bits, number(0, bits.type()), "LT"), add(op::negate, size), size);
  }
  // `a` is x in smaller numbers.
  Pair recovered(const Pair& x, const Pair& a, const Pair& y, const Pair& plain) {
    auto either = [&](const Value& a, const Value& b) { return add(op::or_, a, b); };
    auto all = [&](const Value& a, const Value& b) { return add(op::and_, a, b); };
    auto finite = [&](const Pair& p) {
      auto one = [&](const Value& v) { return compared(add(op::abs, v), like(kInf, v), "LT"); };
      return all(one(p.re), one(p.im));
    };
    const Value lost = all(add(op::not_, is_number(plain.re)), add(op::not_, is_number(plain.im)));
    const Value by_zero = all(all(is_equal(y.re, 0), is_equal(y.im, 0)), either(is_number(x.re), is_number(x.im)));
    const Value x_infinite = either(is_infinite(x.re), is_infinite(x.im)),
                y_infinite = either(is_infinite(y.re), is_infinite(y.im));
    const Value endless = with_sign(like(kInf, y.re), y.re);
    auto boxed = [&](const Value& v) { return with_sign(truth(is_infinite(v), v), v); };
    auto by = [&](const Pair& p, const Pair& q, double size) {
      const Value s = like(size, p.re);
      return Pair{
          add(op::multiply, s, add(op::add, add(op::multiply, p.re, q.re), add(op::multiply, p.im, q.im))),
          add(op::multiply, s, add(op::subtract, add(op::multiply, p.im, q.re), add(op::multiply, p.re, q.im)))};
    };
    const Pair of_zero = {add(op::multiply, endless, x.re), add(op::multiply, endless, x.im)};
    const Pair of_x = by({boxed(x.re), boxed(x.im)}, y, kInf), of_y = by(a, {boxed(y.re), boxed(y.im)}, 0);
    const Value is_x = all(x_infinite, finite(y)), is_y = all(y_infinite, finite(x));
    auto choose = [&](const Value& zero, const Value& big, const Value& small, const Value& otherwise) {
      return selected(all(lost, by_zero), zero,
                      selected(all(lost, is_x), big, selected(all(lost, is_y), small, otherwise)));
    };
    return {choose(of_zero.re, of_x.re, of_y.re, plain.re), choose(of_zero.im, of_x.im, of_y.im, plain.im)};
  }

  // e^x (cos y + i sin y), in two factors where the first alone would leave the range.
  Pair exponential(const Pair& x) {
    const Value large = compared(x.re, like(x.re.type().dtype == Dtype::f64 ? 700 : 80, x.re), "GT");
    const Value power = add(op::exponential, selected(large, add(op::multiply, x.re, like(0.5, x.re)), x.re));
    const Value gone = is_equal(x.re, -kInf), level = is_equal(x.im, 0);
    auto finish = [&](const Value& rotation) {
      const Value once = add(op::multiply, power, rotation);
      return selected(gone, like(0, once), selected(large, add(op::multiply, once, power), once));
    };
    return {selected(level, finish(like(1, x.re)), finish(add(op::cosine, x.im))),
            selected(level, x.im, finish(add(op::sine, x.im)))};
  }

  Graph& g_;
  const Node& node_;
  ops::Make make_;
};

}  // namespace

ir::Replacement take_apart_complex(Graph& graph, const Node& node) { return Parts(graph, node).all(); }

bool is_complex_part(const Node& node) {
  return (node.op == op::real || node.op == op::imag) && has_complex(node.inputs[0]);
}
bool is_complex_pair(const Node& node) { return node.op == op::complex; }

}  // namespace trine::compile
