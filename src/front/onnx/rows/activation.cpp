// Activations, each by the formula of ONNX's own definition, and softmax over an axis.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "front/onnx/call.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

// x where it is above zero, else `other`.
Lowered above_zero(Call& c, Made other) {
  return one(c.b.select(TRY(c.b.compare_number(c.in[0], 0, "GT")), c.in[0], TRY(std::move(other))));
}

Lowered relu(Call& c) { return one(c.b.with_number(op::maximum, c.in[0], 0)); }

Lowered leaky_relu(Call& c) { return above_zero(c, c.b.with_number(op::multiply, c.in[0], c.real("alpha", 0.01f))); }

Lowered prelu(Call& c) { return above_zero(c, c.b.binary(op::multiply, c.in[0], c.in[1])); }

Lowered elu(Call& c) {
  const Value grown = TRY(c.b.unary(op::exponential_minus_one, c.in[0]));
  return above_zero(c, c.b.with_number(op::multiply, grown, c.real("alpha", 1)));
}

Lowered selu(Call& c) {
  const double alpha = c.real("alpha", 1.67326319217681884765625), gamma = c.real("gamma", 1.05070102214813232421875);
  const Value grown = TRY(c.b.with_number(op::multiply, TRY(c.b.unary(op::exponential_minus_one, c.in[0])), alpha));
  return one(c.b.with_number(op::multiply, TRY(above_zero(c, grown))[0], gamma));
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
Lowered celu(Call& c) {
  const double alpha = c.real("alpha", 1);
  const Value grown = TRY(c.b.unary(op::exponential_minus_one, TRY(c.b.with_number(op::divide, c.in[0], alpha))));
  const Value below = TRY(c.b.with_number(op::minimum, TRY(c.b.with_number(op::multiply, grown, alpha)), 0));
  return one(c.b.binary(op::add, TRY(c.b.with_number(op::maximum, c.in[0], 0)), below));
}

Lowered gelu(Call& c) {
  const Value x = c.in[0];
  const std::string_view how = c.text("approximate", "none");
  Value inner = {};
  if (how == "tanh") {
    const Value cube = TRY(c.b.binary(op::multiply, TRY(c.b.binary(op::multiply, x, x)), x));
    const Value sum = TRY(c.b.binary(op::add, x, TRY(c.b.with_number(op::multiply, cube, 0.044715))));
    inner = TRY(c.b.unary(op::tanh, TRY(c.b.with_number(op::multiply, sum, std::sqrt(2 / M_PI)))));
  } else if (how == "none") {
    inner = TRY(c.b.unary(op::erf, TRY(c.b.with_number(op::multiply, x, std::sqrt(0.5)))));
  } else {
    return fail(Code::invalid, cat("approximate `", how, "`; expected none or tanh"));
  }
  const Value half = TRY(c.b.with_number(op::multiply, x, 0.5));
  return one(c.b.binary(op::multiply, half, TRY(c.b.with_number(op::add, inner, 1))));
}

Made hard_sigmoid_of(Build& b, Value x, double alpha, double beta) {
  const Value line = TRY(b.with_number(op::add, TRY(b.with_number(op::multiply, x, alpha)), beta));
  return b.clamp(line, 0, 1);
}

Lowered hard_sigmoid(Call& c) { return one(hard_sigmoid_of(c.b, c.in[0], c.real("alpha", 0.2f), c.real("beta", 0.5))); }

Lowered hard_swish(Call& c) {
  return one(c.b.binary(op::multiply, c.in[0], TRY(hard_sigmoid_of(c.b, c.in[0], 1.0 / 6, 0.5))));
}

// log(1 + e^x), without overflow
Lowered softplus(Call& c) {
  const Value small = TRY(c.b.unary(op::exponential, TRY(c.b.unary(op::negate, TRY(c.b.unary(op::abs, c.in[0]))))));
  const Value positive = TRY(c.b.with_number(op::maximum, c.in[0], 0));
  return one(c.b.binary(op::add, positive, TRY(c.b.unary(op::log_plus_one, small))));
}

Lowered softsign(Call& c) {
  const Value size = TRY(c.b.with_number(op::add, TRY(c.b.unary(op::abs, c.in[0])), 1));
  return one(c.b.binary(op::divide, c.in[0], size));
}

Lowered swish(Call& c) {
  const Value scaled = TRY(c.b.with_number(op::multiply, c.in[0], c.real("alpha", 1)));
  return one(c.b.binary(op::multiply, c.in[0], TRY(c.b.unary(op::logistic, scaled))));
}

Lowered thresholded_relu(Call& c) {
  const Value above = TRY(c.b.compare_number(c.in[0], c.real("alpha", 1), "GT"));
  return one(c.b.select(above, c.in[0], TRY(c.b.number(dtype(c.in[0]), 0))));
}

Lowered shrink(Call& c) {
  const double bias = c.real("bias", 0), lambd = c.real("lambd", 0.5);
  const Value x = c.in[0];
  const Value zero = TRY(c.b.number(dtype(x), 0));
  const Value high =
      TRY(c.b.select(TRY(c.b.compare_number(x, lambd, "GT")), TRY(c.b.with_number(op::subtract, x, bias)), zero));
  return one(c.b.select(TRY(c.b.compare_number(x, -lambd, "LT")), TRY(c.b.with_number(op::add, x, bias)), high));
}

// Bounds are attributes up to opset 10, inputs after; where they cross, the upper one wins.
Lowered clip(Call& c) {
  Value x = c.in[0];
  if (c.opset < 11) {
    x = TRY(c.b.with_number(op::maximum, x, c.real("min", std::numeric_limits<float>::lowest())));
    return one(c.b.with_number(op::minimum, x, c.real("max", std::numeric_limits<float>::max())));
  }
  if (c.has(1)) x = TRY(c.b.binary(op::maximum, x, c.in[1]));
  if (c.has(2)) x = TRY(c.b.binary(op::minimum, x, c.in[2]));
  return Values{x};
}

struct Exponentials {
  Value shifted = {}, powers = {}, sum = {};
};

Result<Exponentials> exponentials(Build& b, Value x, const Ints& axes) {
  const Value highest = TRY(b.reduce(x, "maximum", axes, true));
  const Value shifted = TRY(b.binary(op::subtract, x, highest));
  const Value powers = TRY(b.unary(op::exponential, shifted));
  return Exponentials{shifted, powers, TRY(b.reduce(powers, "add", axes, true))};
}

// Up to opset 12 all dims from the axis on were one.
Result<Ints> softmax_axes(Call& c) {
  const int r = rank(c.in[0]);
  if (c.opset >= 13) return Ints{TRY(c.axis(c.integer("axis", -1), r))};
  const int64_t axis = c.integer("axis", 1);
  return count_up(axis == r ? r : TRY(c.axis(axis, r)), r);
}

Lowered softmax(Call& c) {
  const Value x = TRY(c.b.widen(c.in[0]));
  const Exponentials e = TRY(exponentials(c.b, x, TRY(softmax_axes(c))));
  return one(c.b.convert(TRY(c.b.binary(op::divide, e.powers, e.sum)), dtype(c.in[0])));
}

Lowered log_softmax(Call& c) {
  const Value x = TRY(c.b.widen(c.in[0]));
  const Exponentials e = TRY(exponentials(c.b, x, TRY(softmax_axes(c))));
  return one(c.b.convert(TRY(c.b.binary(op::subtract, e.shifted, TRY(c.b.unary(op::log, e.sum)))), dtype(c.in[0])));
}

// One at the first of the largest elements, zero elsewhere.
Lowered hardmax(Call& c) {
  const Ints axes = TRY(softmax_axes(c));
  Value x = c.in[0];
  const Dims before = dims(x);
  if (axes.empty()) return one(c.b.number(dtype(x), 1, before));
  Dims flat = {1, 1};
  for (int64_t d = 0; d < rank(x); ++d) flat[d >= axes[0] && axes.size() > 1] *= before[size_t(d)];
  int axis = int(axes[0]);
  if (axes.size() > 1) {
    x = TRY(c.b.reshape(x, flat));
    axis = 1;
  }
  const Value is_top = TRY(c.b.compare(x, TRY(c.b.reduce(x, "maximum", {axis}, true)), "EQ"));
  const Value at = TRY(c.b.iota(Dtype::s32, dims(x), axis));
  const Value far = TRY(c.b.number(Dtype::s32, double(std::numeric_limits<int32_t>::max())));
  const Value first = TRY(c.b.reduce(TRY(c.b.select(is_top, at, far)), "minimum", {axis}, true));
  return one(c.b.reshape(TRY(c.b.convert(TRY(c.b.compare(at, first, "EQ")), dtype(x))), before));
}

// What it does when a model is used: nothing.
Lowered dropout(Call& c) {
  const bool trains = c.opset >= 12 && c.has(2);
  if (trains) {
    const bool is_on = TRY(c.need_number(2, "training_mode")) != 0;
    const double ratio = c.has(1) ? TRY(c.need_number(1, "ratio")) : 0.5;
    if (is_on && ratio != 0) return fail(Code::unsupported, cat("dropout of ", ratio, " while training"));
  }
  Values out = {c.in[0]};
  if (c.wants(1)) out.push_back(TRY(c.b.number(Dtype::boolean, 1, dims(c.in[0]))));
  return out;
}

Lowered swiglu(Call& c) { return one(c.b.binary(op::multiply, TRY(swish(c))[0], c.in[1])); }

const Row kRows[] = {
    {"Celu", 12, 1, 1, celu},
    {"Clip", 6, 1, 3, clip},
    {"Dropout", 7, 1, 3, dropout},
    {"Elu", 6, 1, 1, elu},
    {"Gelu", 20, 1, 1, gelu},
    {"HardSigmoid", 6, 1, 1, hard_sigmoid},
    {"HardSwish", 14, 1, 1, hard_swish},
    {"Hardmax", 1, 1, 1, hardmax},
    {"LeakyRelu", 6, 1, 1, leaky_relu},
    {"LogSoftmax", 1, 1, 1, log_softmax},
    {"PRelu", 7, 2, 2, prelu},
    {"Relu", 6, 1, 1, relu},
    {"Selu", 6, 1, 1, selu},
    {"Shrink", 9, 1, 1, shrink},
    {"Softmax", 1, 1, 1, softmax},
    {"Softplus", 1, 1, 1, softplus},
    {"Softsign", 1, 1, 1, softsign},
    {"SwiGLU", 28, 2, 2, swiglu},
    {"Swish", 24, 1, 1, swish},
    {"ThresholdedRelu", 10, 1, 1, thresholded_relu},
};

}  // namespace

std::span<const Row> rows_activation() { return kRows; }

}  // namespace trine::front::onnx
