// Resizing images: each axis on its own, as a choice of indices (nearest) or a product with a matrix of weights.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "front/onnx/call.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kWeightsMax = int64_t{1} << 24;

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1, start = 0, end = 1;  // start, end: of tf_crop_and_resize
};

struct How {
  std::string_view mode = {}, coordinates = {}, nearest = {};
  double cubic_a = -0.75, outside_value = 0;
  bool exclude_outside = false, antialias = false;
};

// Where in the input the output's element i lies.
double source_of(const How& how, const Axis& a, int64_t i) {
  const auto x = double(i), in = double(a.in), out = double(a.out);
  if (how.coordinates == "asymmetric") return x / a.scale;
  if (how.coordinates == "align_corners") return a.out > 1 ? x * (in - 1) / (out - 1) : 0;
  if (how.coordinates == "tf_crop_and_resize")
    return a.out > 1 ? a.start * (in - 1) + x * (a.end - a.start) * (in - 1) / (out - 1)
                     : 0.5 * (a.start + a.end) * (in - 1);
  if (how.coordinates == "pytorch_half_pixel" && a.out <= 1) return 0;
  const double half = (x + 0.5) / a.scale - 0.5;
  if (how.coordinates != "half_pixel_symmetric") return half;
  return in / 2 * (1 - out / (a.scale * in)) + half;
}

int64_t nearest_index(const How& how, double x) {
  if (how.nearest == "floor") return int64_t(std::floor(x));
  if (how.nearest == "ceil") return int64_t(std::ceil(x));
  if (how.nearest == "round_prefer_ceil") return int64_t(std::floor(x + 0.5));
  return int64_t(std::ceil(x - 0.5));
}

double kernel_at(const How& how, double x) {
  x = std::abs(x);
  if (how.mode == "linear") return std::max(0.0, 1 - x);
  const double a = how.cubic_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Weights of the input's elements in output element i.
void weigh(const How& how, const Axis& a, int64_t i, float* row) {
  const double x = source_of(how, a, i), shrink = how.antialias ? std::min(a.scale, 1.0) : 1.0;
  const double reach = (how.mode == "linear" ? 1 : 2) / shrink;
  const auto first = int64_t(std::floor(x - reach)) + 1, last = int64_t(std::ceil(x + reach)) - 1;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t k = first; k <= std::max(first, last); ++k) {
    const bool outside = k < 0 || k >= a.in;
    weights.push_back(how.exclude_outside && outside ? 0 : kernel_at(how, (double(k) - x) * shrink));
    sum += weights.back();
  }
  const double divisor = (how.antialias || how.exclude_outside) && sum != 0 ? sum : 1;
  for (size_t k = 0; k < weights.size(); ++k)
    row[std::clamp<int64_t>(first + int64_t(k), 0, a.in - 1)] += float(weights[k] / divisor);
}

// Rows i / times of the input: repeated without looking up.
Made repeat(Build& b, Value x, int axis, int64_t times) {
  Dims apart = dims(x), joined = dims(x);
  apart.insert(apart.begin() + axis + 1, times);
  joined[size_t(axis)] *= times;
  Ints indices;
  for (int64_t d = 0; d < rank(x); ++d) indices.push_back(d <= axis ? d : d + 1);
  return b.reshape(TRY(b.broadcast(x, apart, indices)), joined);
}

Made resize_nearest(Build& b, Value x, int axis, const How& how, const Axis& a) {
  Ints indices;
  const int64_t times = a.in > 0 && a.out % a.in == 0 ? a.out / a.in : 0;
  bool repeats = times > 0;
  for (int64_t i = 0; i < a.out; ++i) {
    indices.push_back(std::clamp<int64_t>(nearest_index(how, source_of(how, a, i)), 0, a.in - 1));
    repeats = repeats && indices.back() == i / times;
  }
  return repeats ? repeat(b, x, axis, times) : b.take(x, axis, b.integers(indices));
}

Made resize_weighted(Build& b, Value x, int axis, const How& how, const Axis& a) {
  Tensor weights = Tensor::make(Dtype::f32, {a.out, a.in});
  for (int64_t i = 0; i < a.out; ++i) weigh(how, a, i, weights.view().as<float>() + i * a.in);
  const Value w = TRY(b.convert(b.constant(std::move(weights)), dtype(x)));
  const Value product = TRY(b.dot(x, w, {}, {}, {axis}, {1}, dtype(x)));  // the axis is last now
  Ints order = count_up(0, rank(x) - 1);
  order.insert(order.begin() + axis, rank(x) - 1);
  return b.transpose(product, order);
}

// Elements that come from outside the input have one value.
Made extrapolate(Build& b, Value y, int axis, const How& how, const Axis& a) {
  Ints outside;
  for (int64_t i = 0; i < a.out; ++i) {
    const double x = source_of(how, a, i);
    outside.push_back(x < 0 || x > double(a.in - 1));
  }
  if (std::find(outside.begin(), outside.end(), 1) == outside.end()) return y;
  const Value mask = TRY(b.broadcast(TRY(b.convert(b.integers(outside), Dtype::boolean)), dims(y), {axis}));
  return b.select(mask, TRY(b.number(dtype(y), how.outside_value)), y);
}

Made resize_axis(Build& b, Value x, int axis, const How& how, const Axis& a) {
  if (a.in == a.out && a.scale == 1 && how.coordinates != "tf_crop_and_resize") return x;
  if (a.in == 0 || a.out < 0 || a.out > kWeightsMax || a.in > kWeightsMax / std::max<int64_t>(a.out, 1))
    return fail(Code::out_of_range, cat("from ", a.in, " to ", a.out, " elements"));
  const bool nearest = how.mode == "nearest";
  for (int64_t i : {int64_t{0}, a.out - 1})
    if (!(std::abs(source_of(how, a, i)) < double(kWeightsMax)) || !(a.scale > 1e-6))
      return fail(Code::invalid, cat("a scale of ", a.scale));
  const Value y = TRY(nearest ? resize_nearest(b, x, axis, how, a) : resize_weighted(b, x, axis, how, a));
  return how.coordinates == "tf_crop_and_resize" ? extrapolate(b, y, axis, how, a) : Made(y);
}

Result<std::vector<float>> need_reals(Call& c, size_t i, std::string_view what) {
  const Value v = TRY(c.b.convert(c.in[i], Dtype::f32));
  const Tensor* t = c.b.known(v);
  if (t == nullptr)
    return fail(Code::unsupported,
                cat("input ", i, " (", what, ") depends on the model's inputs; expected a constant"));
  const auto* at = t->view().as<float>();
  return std::vector<float>(at, at + element_count(t->dims));
}

// Sizes that keep the image's proportions are all scaled by the smallest or the largest factor.
void keep_proportions(std::vector<Axis>& axes, std::string_view policy) {
  if (policy != "not_larger" && policy != "not_smaller") return;
  double scale = axes.empty() ? 1 : axes[0].scale;
  for (const Axis& a : axes) scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  for (Axis& a : axes) {
    a.scale = scale;
    a.out = int64_t(std::min(std::floor(scale * double(a.in) + 0.5), double(kWeightsMax + 1)));
  }
}

Result<std::vector<Axis>> axes_of(Call& c, const Ints& which, size_t scales_at, size_t sizes_at, size_t roi_at) {
  std::vector<Axis> out;
  std::vector<float> scales, roi;
  Ints sizes;
  if (c.has(scales_at)) scales = TRY(need_reals(c, scales_at, "scales"));
  if (scales.empty() && c.find("scales") != nullptr) scales = c.reals("scales");
  if (c.has(sizes_at)) sizes = TRY(c.need_ints(sizes_at, "sizes"));
  if (c.has(roi_at)) roi = TRY(need_reals(c, roi_at, "roi"));
  const size_t n = which.size();
  if (scales.size() != n && sizes.size() != n)
    return fail(Code::invalid, cat("found ", scales.size(), " scales and ", sizes.size(), " sizes for ", n, " axes"));
  for (size_t i = 0; i < n; ++i) {
    Axis a{.in = dims(c.in[0])[size_t(which[i])]};
    if (sizes.size() == n) {
      a.out = std::min(sizes[i], kWeightsMax + 1);
      a.scale = a.in == 0 ? 1 : double(a.out) / double(a.in);
    } else {
      a.scale = std::isfinite(scales[i]) ? double(scales[i]) : 0;
      a.out = int64_t(std::clamp(std::floor(double(a.in) * a.scale), -1.0, double(kWeightsMax + 1)));
    }
    if (roi.size() == 2 * n) a.start = double(roi[i]), a.end = double(roi[i + n]);
    out.push_back(a);
  }
  if (sizes.size() == n) keep_proportions(out, c.text("keep_aspect_ratio_policy", "stretch"));
  return out;
}

Lowered resize_as(Call& c, const How& how, const std::vector<Axis>& axes, const Ints& which) {
  if (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic")
    return fail(Code::invalid, cat("mode `", how.mode, "`; expected nearest, linear or cubic"));
  const Dtype type = dtype(c.in[0]);
  const bool computes = how.mode != "nearest";
  Value x = computes && type != Dtype::f64 ? TRY(c.b.convert(c.in[0], Dtype::f32)) : c.in[0];
  for (size_t i = 0; i < axes.size(); ++i) x = TRY(resize_axis(c.b, x, int(which[i]), how, axes[i]));
  return one(c.b.convert(x, type));
}

Lowered resize(Call& c) {
  How how{.mode = c.text("mode", "nearest"),
          .coordinates = c.text("coordinate_transformation_mode", "half_pixel"),
          .nearest = c.text("nearest_mode", "round_prefer_floor")};
  how.cubic_a = c.real("cubic_coeff_a", -0.75);
  how.outside_value = c.real("extrapolation_value", 0);
  how.exclude_outside = c.integer("exclude_outside", 0) != 0;
  how.antialias = c.integer("antialias", 0) != 0;
  Ints which = c.find("axes") != nullptr ? c.ints("axes") : count_up(0, rank(c.in[0]));
  for (int64_t& a : which) a = TRY(c.axis(a, rank(c.in[0])));
  return resize_as(c, how, TRY(axes_of(c, which, 2, 3, 1)), which);
}

// Before opset 11 coordinates were x / scale, rounded down.
Lowered resize_old(Call& c) {
  const std::string_view mode = c.text("mode", "nearest");
  const How how{.mode = mode == "bilinear" ? "linear" : mode, .coordinates = "asymmetric", .nearest = "floor"};
  const Ints which = count_up(0, rank(c.in[0]));
  return resize_as(c, how, TRY(axes_of(c, which, 1, 9, 9)), which);
}

const Row kRows[] = {
    {"Resize", 10, 2, 2, resize_old},
    {"Resize", 11, 1, 4, resize},
    {"Upsample", 7, 1, 2, resize_old},
};

}  // namespace

std::span<const Row> rows_resize() { return kRows; }

}  // namespace trine::front::onnx
