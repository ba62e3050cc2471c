// Ops that make tensors of nothing but numbers: constants, shapes, ranges, masks, random values.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "front/onnx/call.h"
#include "front/onnx/tensor.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kRangeMax = int64_t{1} << 24;  // elements

Value reals(Build& b, const std::vector<float>& values, bool scalar) {
  Tensor t = Tensor::make(Dtype::f32, scalar ? Dims{} : Dims{int64_t(values.size())});
  std::copy(values.begin(), values.end(), t.view().as<float>());
  return b.constant(std::move(t));
}

Lowered constant(Call& c) {
  for (const AttributeProto& given : c.node.attributes) {
    const AttributeProto* a = c.find(given.name);
    if (a == nullptr) continue;
    if (given.name == "value" && a->tensors.size() == 1)
      return Values{c.b.constant(TRY(make_tensor(a->tensors[0], c.file())))};
    if (given.name == "sparse_value" && a->sparse.size() == 1)
      return Values{c.b.constant(TRY(make_dense(a->sparse[0], c.file())))};
    if (given.name == "value_float") return Values{reals(c.b, {a->real}, true)};
    if (given.name == "value_floats") return Values{reals(c.b, a->reals, false)};
    if (given.name == "value_int") return Values{c.b.integer(a->integer)};
    if (given.name == "value_ints") return Values{c.b.integers(a->integers)};
    if (given.name.starts_with("value_string")) return fail(Code::unsupported, "tensors of strings");
  }
  return fail(Code::invalid, "a constant without its value");
}

Lowered constant_of_shape(Call& c) {
  const Ints to = TRY(c.need_ints(0, "shape"));
  Value value = TRY(c.b.number(Dtype::f32, 0));
  if (const AttributeProto* a = c.find("value"); a != nullptr && a->tensors.size() == 1) {
    Tensor t = TRY(make_tensor(a->tensors[0], c.file()));
    if (element_count(t.dims) != 1)
      return fail(Code::invalid, cat("a value of ", shape_text(t.dtype, t.dims), "; expected one element"));
    value = TRY(c.b.reshape(c.b.constant(std::move(t)), {}));
  }
  return one(c.b.broadcast(value, to));
}

Lowered shape(Call& c) {
  const Dims& all = dims(c.in[0]);
  const int64_t r = rank(c.in[0]);
  const auto inside = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + r : at, 0, r); };
  const int64_t start = inside(c.integer("start", 0)), end = std::max(start, inside(c.integer("end", r)));
  return Values{c.b.integers(Ints(all.begin() + start, all.begin() + end))};
}

Lowered size(Call& c) { return Values{c.b.integer(c.in[0].type().elements())}; }

Lowered range(Call& c) {
  const Dtype type = dtype(c.in[0]);
  const double start = TRY(c.need_number(0, "start")), limit = TRY(c.need_number(1, "limit")),
               delta = TRY(c.need_number(2, "delta"));
  if (delta == 0 || !std::isfinite((limit - start) / delta))
    return fail(Code::invalid, cat("from ", start, " to ", limit, " by ", delta));
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (count > double(kRangeMax)) return fail(Code::out_of_range, cat("a range of ", count, " elements"));
  const Value steps = TRY(c.b.iota(type, {int64_t(count)}, 0));
  const Value scaled = TRY(c.b.binary(op::multiply, steps, TRY(c.b.reshape(c.in[2], {}))));
  return one(c.b.binary(op::add, scaled, TRY(c.b.reshape(c.in[0], {}))));
}

// Column minus row of the last two dims.
Made diagonal_number(Build& b, const Dims& to) {
  const int r = int(to.size());
  return b.binary(op::subtract, TRY(b.iota(Dtype::s64, to, r - 1)), TRY(b.iota(Dtype::s64, to, r - 2)));
}

Lowered eye_like(Call& c) {
  if (rank(c.in[0]) != 2) return fail(Code::invalid, cat("of ", ir::text(c.in[0].type()), "; expected a matrix"));
  const Dtype type = c.find("dtype") != nullptr ? TRY(dtype_of(c.integer("dtype", 1))) : dtype(c.in[0]);
  const Value on = TRY(c.b.compare(TRY(diagonal_number(c.b, dims(c.in[0]))), c.b.integer(c.integer("k", 0)), "EQ"));
  return one(c.b.convert(on, type));
}

Lowered trilu(Call& c) {
  const Value x = c.in[0];
  if (rank(x) < 2) return fail(Code::invalid, cat("of ", ir::text(x.type()), "; expected matrices"));
  const Dims plane(dims(x).end() - 2, dims(x).end());
  Value k = c.b.integer(0);
  if (c.has(1)) k = TRY(c.b.reshape(TRY(c.b.convert(c.in[1], Dtype::s64)), {}));
  const Value keeps = TRY(c.b.compare(TRY(diagonal_number(c.b, plane)), k, c.integer("upper", 1) != 0 ? "GE" : "LE"));
  return one(c.b.select(keeps, x, TRY(c.b.number(dtype(x), 0))));
}

// Uniform in [0, 1): 24 bits of a counter-based generator that the seed and the position of the node start.
Made uniform(Call& c, const Dims& to) {
  Tensor state = Tensor::make(Dtype::u64, {2});
  state.view().as<uint64_t>()[0] = std::bit_cast<uint32_t>(float(c.real("seed", 0)));
  state.view().as<uint64_t>()[1] = c.b.where;
  const ir::Node* bits = TRY(c.b.node({.op = op::rng_bit_generator,
                                       .inputs = {c.b.constant(std::move(state))},
                                       .attrs = {{"rng_algorithm", std::string("PHILOX")}},
                                       .types = {ir::tensor_type(Dtype::u64, {2}), ir::tensor_type(Dtype::u32, to)}}));
  const Value high = TRY(c.b.with_number(op::shift_right_logical, bits->result(1), 8));
  return c.b.with_number(op::multiply, TRY(c.b.convert(high, Dtype::f32)), std::ldexp(1.0, -24));
}

Result<Dtype> random_type(Call& c, Dtype otherwise) {
  return c.find("dtype") != nullptr ? dtype_of(c.integer("dtype", 1)) : Result<Dtype>(otherwise);
}

Lowered random_uniform_of(Call& c, const Dims& to, Dtype type) {
  const double low = c.real("low", 0), high = c.real("high", 1);
  const Value scaled = TRY(c.b.with_number(op::multiply, TRY(uniform(c, to)), high - low));
  return one(c.b.convert(TRY(c.b.with_number(op::add, scaled, low)), type));
}

// By the inverse of the distribution's integral.
Lowered random_normal_of(Call& c, const Dims& to, Dtype type) {
  const Value spread = TRY(
      c.b.with_number(op::add, TRY(c.b.with_number(op::multiply, TRY(uniform(c, to)), 2)), std::ldexp(1.0, -24) - 1));
  const Value normal =
      TRY(c.b.with_number(op::multiply, TRY(c.b.unary(op::erf_inv, spread)), std::sqrt(2.0) * c.real("scale", 1)));
  return one(c.b.convert(TRY(c.b.with_number(op::add, normal, c.real("mean", 0))), type));
}

Lowered random_uniform(Call& c) { return random_uniform_of(c, c.ints("shape"), TRY(random_type(c, Dtype::f32))); }
Lowered random_normal(Call& c) { return random_normal_of(c, c.ints("shape"), TRY(random_type(c, Dtype::f32))); }
Lowered random_uniform_like(Call& c) {
  return random_uniform_of(c, dims(c.in[0]), TRY(random_type(c, dtype(c.in[0]))));
}
Lowered random_normal_like(Call& c) { return random_normal_of(c, dims(c.in[0]), TRY(random_type(c, dtype(c.in[0])))); }

Lowered bernoulli(Call& c) {
  const Dtype type = TRY(random_type(c, dtype(c.in[0])));
  const Value p = TRY(c.b.convert(c.in[0], Dtype::f32));
  return one(c.b.convert(TRY(c.b.compare(TRY(uniform(c, dims(p))), p, "LT")), type));
}

const Row kRows[] = {
    {"Bernoulli", 15, 1, 1, bernoulli},
    {"Constant", 1, 0, 0, constant},
    {"ConstantOfShape", 9, 1, 1, constant_of_shape},
    {"EyeLike", 9, 1, 1, eye_like},
    {"RandomNormal", 1, 0, 0, random_normal},
    {"RandomNormalLike", 1, 1, 1, random_normal_like},
    {"RandomUniform", 1, 0, 0, random_uniform},
    {"RandomUniformLike", 1, 1, 1, random_uniform_like},
    {"Range", 11, 3, 3, range},
    {"Shape", 1, 1, 1, shape},
    {"Size", 1, 1, 1, size},
    {"Trilu", 14, 1, 2, trilu},
};

}  // namespace

std::span<const Row> rows_fill() { return kRows; }

}  // namespace trine::front::onnx
