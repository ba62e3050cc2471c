// Normalisations, over the axes each one names; sums are of f32 at least, as their stash_type asks.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "front/onnx/call.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

struct Moments {
  Value mean = {}, centred = {}, variance = {};
};

Result<Moments> moments(Build& b, Value x, const Ints& axes) {
  const Value mean = TRY(b.mean(x, axes, true));
  const Value centred = TRY(b.binary(op::subtract, x, mean));
  return Moments{mean, centred, TRY(b.mean(TRY(b.binary(op::multiply, centred, centred)), axes, true))};
}

Made inverse_root(Build& b, Value variance, double epsilon) {
  return b.unary(op::rsqrt, TRY(b.with_number(op::add, variance, epsilon)));
}

// One number per channel, lined up with dim 1.
Made per_channel(Build& b, Value v, Value x) {
  if (rank(v) != 1 || rank(x) < 2 || dims(v)[0] != dims(x)[1])
    return fail(Code::invalid, cat(ir::text(v.type()), " for the channels of ", ir::text(x.type())));
  Dims to(dims(x).size(), 1);
  to[1] = dims(v)[0];
  return b.reshape(TRY(b.convert(v, dtype(x))), to);
}

// x * a + b with a and b of the channels alone, which are constants where the weights are.
Lowered batch_normalization(Call& c) {
  const Value x = TRY(c.b.widen(c.in[0]));
  const double epsilon = c.real("epsilon", 1e-5f);
  Value mean = TRY(per_channel(c.b, c.in[3], x)), variance = TRY(per_channel(c.b, c.in[4], x));
  Values running;
  if (c.opset >= 14 && c.integer("training_mode", 0) != 0) {
    const double momentum = c.real("momentum", 0.9f);
    Ints axes = {0};
    for (int64_t d = 2; d < rank(x); ++d) axes.push_back(d);
    const Moments m = TRY(moments(c.b, x, axes));
    for (auto [old, fresh, like] : {std::tuple(mean, m.mean, c.in[3]), std::tuple(variance, m.variance, c.in[4])}) {
      const Value decayed = TRY(c.b.with_number(op::multiply, old, momentum));
      const Value now = TRY(c.b.binary(op::add, decayed, TRY(c.b.with_number(op::multiply, fresh, 1 - momentum))));
      running.push_back(TRY(c.b.convert(TRY(c.b.reshape(now, dims(like))), dtype(like))));
    }
    mean = m.mean;
    variance = m.variance;
  }
  const Value scale =
      TRY(c.b.binary(op::multiply, TRY(per_channel(c.b, c.in[1], x)), TRY(inverse_root(c.b, variance, epsilon))));
  const Value shift =
      TRY(c.b.binary(op::subtract, TRY(per_channel(c.b, c.in[2], x)), TRY(c.b.binary(op::multiply, mean, scale))));
  const Value y = TRY(c.b.binary(op::add, TRY(c.b.binary(op::multiply, x, scale)), shift));
  Values out = {TRY(c.b.convert(y, dtype(c.in[0])))};
  out.insert(out.end(), running.begin(), running.end());
  return out;
}

Lowered instance_normalization(Call& c) {
  const Value x = TRY(c.b.widen(c.in[0]));
  if (rank(x) < 3)
    return fail(Code::invalid, cat("of ", ir::text(x.type()), "; expected batch, channels and an image"));
  const Moments m = TRY(moments(c.b, x, count_up(2, rank(x))));
  const Value unit =
      TRY(c.b.binary(op::multiply, m.centred, TRY(inverse_root(c.b, m.variance, c.real("epsilon", 1e-5f)))));
  const Value scaled = TRY(c.b.binary(op::multiply, unit, TRY(per_channel(c.b, c.in[1], x))));
  return one(c.b.convert(TRY(c.b.binary(op::add, scaled, TRY(per_channel(c.b, c.in[2], x)))), dtype(c.in[0])));
}

// Scale and bias are of the groups in opset 18 to 20, of the channels after.
Lowered group_normalization(Call& c) {
  const Value x = TRY(c.b.widen(c.in[0]));
  const int64_t groups = c.integer("num_groups", 0);
  if (rank(x) < 2 || groups < 1 || dims(x)[1] % groups != 0)
    return fail(Code::invalid, cat(groups, " groups of the channels of ", ir::text(x.type())));
  Dims apart = {dims(x)[0], groups, dims(x)[1] / groups};
  apart.insert(apart.end(), dims(x).begin() + 2, dims(x).end());
  const Value split = TRY(c.b.reshape(x, apart));
  const Moments m = TRY(moments(c.b, split, count_up(2, rank(split))));
  Value unit = TRY(c.b.binary(op::multiply, m.centred, TRY(inverse_root(c.b, m.variance, c.real("epsilon", 1e-5f)))));
  if (c.opset >= 21) unit = TRY(c.b.reshape(unit, dims(x)));
  const Value scaled = TRY(c.b.binary(op::multiply, unit, TRY(per_channel(c.b, c.in[1], unit))));
  const Value y = TRY(c.b.binary(op::add, scaled, TRY(per_channel(c.b, c.in[2], unit))));
  return one(c.b.convert(TRY(c.b.reshape(y, dims(x))), dtype(c.in[0])));
}

Lowered layer_normalization(Call& c) {
  const Value x = c.integer("stash_type", 1) == 1 ? TRY(c.b.widen(c.in[0])) : c.in[0];
  const int axis = TRY(c.axis(c.integer("axis", -1), rank(x)));
  const Moments m = TRY(moments(c.b, x, count_up(axis, rank(x))));
  const Value inverse = TRY(inverse_root(c.b, m.variance, c.real("epsilon", 1e-5f)));
  Value y = TRY(c.b.convert(TRY(c.b.binary(op::multiply, m.centred, inverse)), dtype(c.in[0])));
  y = TRY(c.b.binary(op::multiply, y, TRY(c.b.broadcast(c.in[1], dims(y)))));
  if (c.has(2)) y = TRY(c.b.binary(op::add, y, TRY(c.b.broadcast(c.in[2], dims(y)))));
  return Values{y, m.mean, inverse};
}

Lowered rms_normalization(Call& c) {
  const Value x = c.integer("stash_type", 1) == 1 ? TRY(c.b.widen(c.in[0])) : c.in[0];
  const int axis = TRY(c.axis(c.integer("axis", -1), rank(x)));
  const Value power = TRY(c.b.mean(TRY(c.b.binary(op::multiply, x, x)), count_up(axis, rank(x)), true));
  const Value unit = TRY(c.b.binary(op::multiply, x, TRY(inverse_root(c.b, power, c.real("epsilon", 1e-5f)))));
  const Value y = TRY(c.b.convert(unit, dtype(c.in[1])));
  return one(c.b.binary(op::multiply, y, TRY(c.b.broadcast(c.in[1], dims(y)))));
}

// A norm of zero leaves zeros.
Lowered lp_normalization(Call& c) {
  const Value x = c.in[0];
  const Ints axis = {TRY(c.axis(c.integer("axis", -1), rank(x)))};
  const int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) return fail(Code::invalid, cat("p of ", p, "; expected 1 or 2"));
  const Value sizes = TRY(p == 1 ? c.b.unary(op::abs, x) : c.b.binary(op::multiply, x, x));
  Value norm = TRY(c.b.reduce(sizes, "add", axis, true));
  if (p == 2) norm = TRY(c.b.unary(op::sqrt, norm));
  const Value zero = TRY(c.b.compare_number(norm, 0, "EQ"));
  const Value divisor = TRY(c.b.select(zero, TRY(c.b.number(dtype(x), 1)), norm));
  return one(c.b.select(zero, TRY(c.b.number(dtype(x), 0)), TRY(c.b.binary(op::divide, x, divisor))));
}

Lowered mean_variance_normalization(Call& c) {
  const Ints given = c.find("axes") != nullptr ? c.ints("axes") : Ints{0, 2, 3};
  const Moments m = TRY(moments(c.b, c.in[0], TRY(c.axes(given, rank(c.in[0])))));
  const Value spread = TRY(c.b.with_number(op::add, TRY(c.b.unary(op::sqrt, m.variance)), 1e-9));
  return one(c.b.binary(op::divide, m.centred, spread));
}

// x / (bias + alpha / size * sum of squares of the channels around)^beta
Lowered lrn(Call& c) {
  const Value x = c.in[0];
  const int64_t size = c.integer("size", 1);
  if (rank(x) < 2 || size < 1 || size > (int64_t{1} << 31))
    return fail(Code::invalid, cat("a size of ", size, " in ", ir::text(x.type())));
  const auto r = size_t(rank(x));
  Ints window(r, 1), padding(2 * r, 0);
  window[1] = size;
  padding[2] = (size - 1) / 2;
  padding[3] = size - 1 - (size - 1) / 2;
  const Value sum = TRY(c.b.op(op::reduce_window, {TRY(c.b.binary(op::multiply, x, x)), TRY(c.b.number(dtype(x), 0))},
                               {{"window_dimensions", window},
                                {"window_strides", Ints(r, 1)},
                                {"base_dilations", Ints(r, 1)},
                                {"window_dilations", Ints(r, 1)},
                                {"padding", padding},
                                {"kind", std::string("add")}}));
  const Value scaled = TRY(c.b.with_number(op::multiply, sum, c.real("alpha", 1e-4f) / double(size)));
  const Value base = TRY(c.b.with_number(op::add, scaled, c.real("bias", 1)));
  return one(c.b.binary(op::divide, x, TRY(c.b.with_number(op::power, base, c.real("beta", 0.75)))));
}

const Row kRows[] = {
    {"BatchNormalization", 7, 5, 5, batch_normalization},
    {"GroupNormalization", 18, 3, 3, group_normalization},
    {"InstanceNormalization", 6, 3, 3, instance_normalization},
    {"LRN", 1, 1, 1, lrn},
    {"LayerNormalization", 17, 2, 3, layer_normalization},
    {"LpNormalization", 1, 1, 1, lp_normalization},
    {"MeanVarianceNormalization", 9, 1, 1, mean_variance_normalization},
    {"RMSNormalization", 23, 2, 2, rms_normalization},
};

}  // namespace

std::span<const Row> rows_norm() { return kRows; }

}  // namespace trine::front::onnx
