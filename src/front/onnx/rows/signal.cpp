// Fourier transforms and windows. Complex numbers are a last dim of two, as ONNX has them.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "front/onnx/call.h"
#include "front/onnx/tensor.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kPointsMax = int64_t{1} << 24;

// [..., 1] or [..., 2] as complex numbers of one dim less.
Made to_complex(Build& b, Value x) {
  const int last = rank(x) - 1;
  const int64_t parts = rank(x) > 0 ? dims(x)[size_t(last)] : 0;
  if (rank(x) < 2 || (parts != 1 && parts != 2) || (dtype(x) != Dtype::f32 && dtype(x) != Dtype::f64))
    return fail(Code::invalid, cat("of ", ir::text(x.type()), "; expected f32 or f64 with one or two parts last"));
  const Dims to(dims(x).begin(), dims(x).end() - 1);
  const Value real = TRY(b.reshape(TRY(b.slice_dim(x, last, 0, 1)), to));
  const Value imaginary =
      parts == 2 ? TRY(b.reshape(TRY(b.slice_dim(x, last, 1, 2)), to)) : TRY(b.number(dtype(x), 0, to));
  return b.op(op::complex, {real, imaginary});
}

Made from_complex(Build& b, Value z) {
  Dims to = dims(z);
  to.push_back(1);
  return b.concat({TRY(b.reshape(TRY(b.unary(op::real, z)), to)), TRY(b.reshape(TRY(b.unary(op::imag, z)), to))},
                  rank(z));
}

// Cut, or filled with zeros, to n along the last dim.
Made fitted(Build& b, Value x, int64_t n) {
  const int last = rank(x) - 1;
  const int64_t size = dims(x)[size_t(last)];
  if (size >= n) return b.slice_dim(x, last, 0, n);
  Dims more = dims(x);
  more[size_t(last)] = n - size;
  const Value zero = TRY(b.number(dtype(x) == Dtype::c64 ? Dtype::f32 : Dtype::f64, 0, more));
  return b.concat({x, TRY(b.op(op::complex, {zero, zero}))}, last);
}

// Over the last dim of complex numbers; one-sided: the first half and its middle.
Made transform(Build& b, Value z, int64_t n, bool inverse, bool half) {
  z = TRY(fitted(b, z, n));
  z = TRY(b.op(op::fft, {z}, {{"fft_type", std::string(inverse ? "IFFT" : "FFT")}, {"fft_length", Ints{n}}}));
  return half ? b.slice_dim(z, rank(z) - 1, 0, n / 2 + 1) : Made(z);
}

// The real numbers whose transform has this first half, axes moved back, in one part.
Made real_inverse(Build& b, Value z, int64_t n, const Ints& order) {
  const Value half = TRY(fitted(b, z, n / 2 + 1));
  const Value y = TRY(b.op(op::fft, {half}, {{"fft_type", std::string("IRFFT")}, {"fft_length", Ints{n}}}));
  const Value moved = TRY(b.transpose(y, order));
  Dims to = dims(moved);
  to.push_back(1);
  return b.reshape(moved, to);
}

Result<int64_t> points(Call& c, size_t input, int64_t otherwise) {
  int64_t n = otherwise;
  if (c.has(input)) {
    const Ints given = TRY(c.need_ints(input, "length"));
    n = given.size() == 1 ? given[0] : -1;
  }
  if (n < 1 || n > kPointsMax) return fail(Code::invalid, cat("a transform of ", n, " points"));
  return n;
}

// The axis is an attribute up to opset 19, then an input.
Lowered dft(Call& c) {
  const Value x = c.in[0];
  int64_t given = c.opset < 20 ? c.integer("axis", 1) : -2;
  if (c.opset >= 20 && c.has(2)) {
    const Ints axes = TRY(c.need_ints(2, "axis"));
    if (axes.size() != 1) return fail(Code::invalid, cat("found ", axes.size(), " axes; expected one"));
    given = axes[0];
  }
  const int axis = TRY(c.axis(given, rank(x)));
  Value z = TRY(to_complex(c.b, x));
  if (axis >= rank(z)) return fail(Code::invalid, cat("axis ", given, " is that of the two parts"));
  const bool inverse = c.integer("inverse", 0) != 0, half = c.integer("onesided", 0) != 0;
  Ints order = count_up(0, rank(z));
  std::swap(order[size_t(axis)], order.back());
  const int64_t size = dims(z)[size_t(axis)], n = TRY(points(c, 1, inverse && half ? 2 * (size - 1) : size));
  z = TRY(c.b.transpose(z, order));
  if (inverse && half) return one(real_inverse(c.b, z, n, order));
  z = TRY(transform(c.b, z, n, inverse, half));
  return one(from_complex(c.b, TRY(c.b.transpose(z, order))));
}

// Frames of the signal times the window, each transformed: [batch, frames, bins, 2].
Lowered stft(Call& c) {
  Value z = TRY(to_complex(c.b, c.in[0]));
  if (rank(z) != 2)
    return fail(Code::invalid, cat("of ", ir::text(c.in[0].type()), "; expected batch, time and parts"));
  const int64_t size = dims(z)[1], step = TRY(points(c, 1, 0));
  const int64_t length = TRY(points(c, 3, c.has(2) && rank(c.in[2]) == 1 ? dims(c.in[2])[0] : size));
  if (length > size) return fail(Code::invalid, cat("frames of ", length, " in a signal of ", size));
  const int64_t frames = (size - length) / step + 1;
  if (frames > kPointsMax / length) return fail(Code::out_of_range, cat(frames, " frames of ", length));
  Ints indices;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < length; ++i) indices.push_back(f * step + i);
  z = TRY(c.b.take(z, 1, TRY(c.b.reshape(c.b.integers(indices), {frames, length}))));
  if (c.has(2)) {
    const Value zero = TRY(c.b.number(dtype(c.in[2]), 0, dims(c.in[2])));
    z = TRY(c.b.binary(op::multiply, z, TRY(c.b.op(op::complex, {c.in[2], zero}))));
  }
  return one(from_complex(c.b, TRY(transform(c.b, z, length, false, c.integer("onesided", 1) != 0))));
}

// a - b cos(2 pi i / n) + c cos(4 pi i / n)
Lowered window(Call& c, double first, double second, double third) {
  const int64_t size = TRY(points(c, 0, 0));
  const double n = c.integer("periodic", 1) != 0 ? double(size) : double(size - 1);
  const Dtype type = TRY(dtype_of(c.integer("output_datatype", 1)));
  const Value angle =
      TRY(c.b.with_number(op::multiply, TRY(c.b.iota(Dtype::f64, {size}, 0)), n > 0 ? 2 * M_PI / n : 0));
  const Value once = TRY(c.b.with_number(op::multiply, TRY(c.b.unary(op::cosine, angle)), -second));
  const Value twice = TRY(c.b.unary(op::cosine, TRY(c.b.with_number(op::multiply, angle, 2))));
  const Value sum = TRY(c.b.binary(op::add, once, TRY(c.b.with_number(op::multiply, twice, third))));
  return one(c.b.convert(TRY(c.b.with_number(op::add, sum, first)), type));
}

Lowered hann(Call& c) { return window(c, 0.5, 0.5, 0); }
Lowered hamming(Call& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }
Lowered blackman(Call& c) { return window(c, 0.42, 0.5, 0.08); }

const Row kRows[] = {
    {"BlackmanWindow", 17, 1, 1, blackman}, {"DFT", 17, 1, 3, dft},   {"HammingWindow", 17, 1, 1, hamming},
    {"HannWindow", 17, 1, 1, hann},         {"STFT", 17, 2, 4, stft},
};

}  // namespace

std::span<const Row> rows_signal() { return kRows; }

}  // namespace trine::front::onnx
