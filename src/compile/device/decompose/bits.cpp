// Bits of whole numbers and of floats counted, shifted and cut, in words of 32 bits; and ops that are another op's
// special form, or nothing at all on one core; see decompose.h.
#include <cmath>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile::device {

using ir::Value;

namespace {

// Short ways to write s32 arithmetic of one shape.
class Words {
 public:
  Words(ops::Make& make, const Dims& dims) : make_(make), dims_(dims) {}
  Value number(int64_t v) const { return make_.number(Dtype::s32, double(int32_t(uint32_t(v))), dims_); }
  Value both(const Value& a, const Value& b) const { return make_.op(op::and_, {a, b}); }
  Value both(const Value& a, int64_t b) const { return both(a, number(b)); }
  Value either(const Value& a, const Value& b) const { return make_.op(op::or_, {a, b}); }
  Value add(const Value& a, const Value& b) const { return make_.op(op::add, {a, b}); }
  Value sub(const Value& a, const Value& b) const { return make_.op(op::subtract, {a, b}); }
  Value down(const Value& a, int by) const { return make_.op(op::shift_right_logical, {a, number(by)}); }
  Value pick(const Value& is, const Value& yes, const Value& no) const { return make_.op(op::select, {is, yes, no}); }
  Value more(const Value& a, int64_t b) const { return make_.compare(a, number(b), "GT"); }

  Value ones(Value x) const {  // how many
    x = sub(x, both(down(x, 1), 0x55555555));
    x = add(both(x, 0x33333333), both(down(x, 2), 0x33333333));
    x = both(add(x, down(x, 4)), 0x0f0f0f0f);
    x = add(x, down(x, 8));
    return both(add(x, down(x, 16)), 0x3f);
  }

 private:
  ops::Make& make_;
  const Dims& dims_;
};

int width_of(Dtype d) { return bytes(d) * 8; }

bool is_word(Dtype d) { return is_integer(d) && device_dtype(d) && bytes(d) <= 4; }

// An element's own bits, zeros above.
Value as_word(ops::Make& make, const Words& w, const Value& x) {
  const Dtype dtype = x.type().dtype;
  if (bytes(dtype) == 4) return make.bits(x, Dtype::s32);
  if (is_floating(dtype)) return make.convert(make.bits(x, bytes(dtype) == 2 ? Dtype::u16 : Dtype::u8), Dtype::s32);
  return w.both(make.convert(x, Dtype::s32), (int64_t{1} << width_of(dtype)) - 1);
}

}  // namespace

ir::Replacement count_bits(ir::Graph& graph, const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  if (!is_word(dtype)) return {};
  ops::Make make(graph, node.where);
  const Words w(make, node.types[0].dims);
  Value x = as_word(make, w, node.inputs[0]);
  if (node.op == op::count_leading_zeros) {
    for (int by = 1; by < width_of(dtype); by *= 2) x = w.either(x, w.down(x, by));
    x = w.sub(w.number(width_of(dtype)), w.ones(x));
  } else {
    x = w.ones(x);
  }
  return {bytes(dtype) == 4 ? make.bits(x, dtype) : make.convert(x, dtype)};
}

// The highest bit fills: what a logical shift leaves out, where it is set.
ir::Replacement shift_with_sign(ir::Graph& graph, const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  if (!is_word(dtype)) return {};
  ops::Make make(graph, node.where);
  const Words w(make, node.types[0].dims);
  Value x = as_word(make, w, node.inputs[0]);
  const int64_t sign = int64_t{1} << (width_of(dtype) - 1);
  if (bytes(dtype) < 4) x = w.sub(make.op(op::xor_, {x, w.number(sign)}), w.number(sign));
  Value by = bytes(dtype) == 4 ? make.bits(node.inputs[1], Dtype::s32) : make.convert(node.inputs[1], Dtype::s32);
  const Value out_of_range =
      make.op(op::or_, {make.compare(by, w.number(0), "LT"), make.compare(by, w.number(width_of(dtype) - 1), "GT")});
  by = w.pick(out_of_range, w.number(31), by);
  const Value left = make.op(op::shift_right_logical, {x, by});
  const Value reach = make.op(op::shift_right_logical, {w.number(-1), by});
  const Value moved = w.pick(make.compare(x, w.number(0), "LT"), w.either(left, make.op(op::not_, {reach})), left);
  return {bytes(dtype) == 4 ? make.bits(moved, dtype) : make.convert(moved, dtype)};
}

// As the op rounds: to nearest even in the bits kept; what overflows is infinite, what would be subnormal zero.
ir::Replacement precision_by_bits(ir::Graph& graph, const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  const FloatFormat format = row(dtype).format;
  if (!device_dtype(dtype) || (dtype != Dtype::f32 && dtype != Dtype::bf16 && dtype != Dtype::f16)) return {};
  ops::Make make(graph, node.where);
  const Words w(make, node.types[0].dims);
  const int m = format.mantissa_bits, e = format.exponent_bits;
  const int64_t m_bits = node.attrs.integer("mantissa_bits"), e_bits = node.attrs.integer("exponent_bits");
  const int64_t sign = int64_t{1} << (e + m), infinite = ((int64_t{1} << e) - 1) << m;
  const Value x = as_word(make, w, node.inputs[0]), size = w.both(x, sign - 1);
  Value cut = size;
  if (m_bits < m) {
    const int drop = m - int(m_bits);
    const Value odd = w.both(w.down(size, drop), 1);
    cut = w.add(size, w.add(odd, w.number((int64_t{1} << (drop - 1)) - 1)));
    cut = w.both(cut, ~((int64_t{1} << drop) - 1));
  }
  if (e_bits < e) {
    const int64_t bias = (int64_t{1} << (e - 1)) - 1, reach = (int64_t{1} << (e_bits - 1)) - 1;
    const Value exponent = w.down(cut, m);
    cut = w.pick(w.more(exponent, bias - reach), cut, w.number(0));
    cut = w.pick(w.more(exponent, bias + reach), w.number(infinite), cut);
  }
  cut = w.pick(w.more(size, infinite), size, cut);  // NaN stays
  const Value out = w.either(cut, w.both(x, sign));
  if (dtype == Dtype::f32) return {make.bits(out, dtype)};
  return {make.bits(make.convert(out, Dtype::u16), dtype)};
}

ir::Replacement plain_form(ir::Graph& graph, const ir::Node& node) {
  ops::Make make(graph, node.where);
  const ir::Type& type = node.types.empty() ? ir::Type{} : node.types[0];
  if (node.op == op::dot)
    return {make.op(op::dot_general, node.inputs,
                    {{"lhs_batch", ir::Ints{}},
                     {"rhs_batch", ir::Ints{}},
                     {"lhs_contract", ir::Ints{int64_t(node.inputs[0].type().dims.size()) - 1}},
                     {"rhs_contract", ir::Ints{0}}},
                    {type})};
  if (node.op == op::broadcast) {
    ir::Ints to;
    for (size_t d = node.attrs.ints("broadcast_sizes").size(); d < type.dims.size(); ++d) to.push_back(int64_t(d));
    return {make.broadcast(node.inputs[0], type.dims, to)};
  }
  if (node.op == op::sharding_constraint) return {node.inputs[0]};
  if (node.op == op::real && !is_complex(node.inputs[0].type().dtype)) return {node.inputs[0]};
  if (node.op == op::imag && !is_complex(node.inputs[0].type().dtype)) return {make.number(type.dtype, 0, type.dims)};
  if (node.op == op::square) return {make.op(op::multiply, {node.inputs[0], node.inputs[0]})};
  if (node.op == op::collective_permute && node.attrs.ints("source_target_pairs").empty())
    return {make.number(type.dtype, 0, type.dims)};  // nobody sends
  return {};
}

}  // namespace trine::compile::device
