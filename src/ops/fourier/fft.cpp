// fft: the discrete Fourier transform over the last dims, as many as fft_length has. FFT and IFFT take and give complex
// numbers; RFFT keeps the n/2+1 first of a real input's, IRFFT gives the real result of such a half. Inverses divide
// by the number of points. C1: fft_length has 1 to 3 entries, the sizes of those dims (of IRFFT: of the result).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/pool.h"
#include "ops/fourier/fourier.h"
#include "ops/shape.h"

namespace trine::ops {

namespace {

Result<Dtype> result_dtype(std::string_view type, Dtype x) {
  const bool is_double = x == Dtype::f64 || x == Dtype::c128;
  if (type == "RFFT" && (x == Dtype::f32 || x == Dtype::f64)) return is_double ? Dtype::c128 : Dtype::c64;
  if (type == "IRFFT" && is_complex(x)) return is_double ? Dtype::f64 : Dtype::f32;
  if ((type == "FFT" || type == "IFFT") && is_complex(x)) return x;
  return fail(Code::invalid, cat("fft_type `", type, "` of ", row(x).name,
                                 "; FFT, IFFT or IRFFT of c64 or c128, or RFFT of f32 or f64 was expected"));
}

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  const std::string_view type = call.attrs.text("fft_type");
  const Dtype dtype = TRY(result_dtype(type, x.dtype));
  const ir::Ints& lengths = call.attrs.ints("fft_length");
  if (lengths.empty() || lengths.size() > 3 || lengths.size() > x.dims.size())
    return fail(Code::invalid, cat("fft_length has ", lengths.size(), " entries; the input ", x.rank(), " dims"));
  Dims dims = x.dims;
  for (size_t i = 0; i < lengths.size(); ++i) {
    int64_t& dim = dims[dims.size() - lengths.size() + i];
    const bool is_last = i + 1 == lengths.size();
    const bool is_half = type == "IRFFT" && is_last;
    const bool is_nothing = lengths[i] == 0 && dim == 0;  // which half of nothing may be as well
    if (lengths[i] < 0 || (dim != (is_half ? lengths[i] / 2 + 1 : lengths[i]) && !is_nothing))
      return fail(Code::invalid, cat("fft_length ", i, " is ", lengths[i], "; that dim of the input has ", dim));
    if (is_last && type == "RFFT" && dim > 0) dim = dim / 2 + 1;
    if (is_half) dim = lengths[i];
  }
  return std::vector<ir::Type>{ir::tensor_type(dtype, std::move(dims))};
}

// A dim of a dense tensor: lines before it, its length, and elements between neighbours along it.
struct Axis {
  int64_t outer = 1, length = 1, inner = 1;

  Axis(const Dims& dims, size_t dim) : length(dims[dim]) {
    for (size_t d = 0; d < dims.size(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : dims[d];
  }
  int64_t lines() const { return outer * inner; }
  int64_t start(int64_t line) const { return line / inner * length * inner + line % inner; }
};

template <class W>
class Scratch {
 public:
  explicit Scratch(size_t count)
      : data_(static_cast<W*>(std::aligned_alloc(64, (count * sizeof(W) + 63) / 64 * 64)), &std::free) {}
  W* data() const { return data_.get(); }

 private:
  std::unique_ptr<W, decltype(&std::free)> data_;
};

// Some neighbouring lines, element i of the l-th at i * kLanes + l; walked as they lie in memory.
template <int64_t kLanes>
class Lines {
 public:
  Lines(const Axis& axis, int64_t first, int64_t count) : axis_(axis), count_(count) {
    for (int64_t l = 0; l < count; ++l) starts_[l] = axis.start(first + l);
  }
  int64_t count() const { return count_; }
  void visit(auto* x, const auto& one) const {
    constexpr int64_t kBlock = 8;  // elements of a line before the next line's, where lines are rows
    const int64_t n = axis_.length, block = axis_.inner == 1 ? kBlock : 1;
    for (int64_t i = 0; i < n; i += block)
      for (int64_t l = 0; l < count_; ++l)
        for (int64_t k = i; k < std::min(n, i + block); ++k) one(x[starts_[l] + k * axis_.inner], k * kLanes + l);
  }

 private:
  const Axis& axis_;
  const int64_t count_;
  int64_t starts_[kLanes];
};

// Every line along one dim, kLanes of them at a time; W is what the sums are of.
template <class W, class T>
void transform_lines(const std::complex<T>* from, std::complex<T>* to, const Axis& axis, int sign, T scale) {
  const Fourier<W> plan(size_t(axis.length), sign);
  constexpr auto kLanes = int64_t(Fourier<W>::kLanes);
  constexpr int64_t kPoints = 1 << 15;  // of a part of the work
  const int64_t n = axis.length, bundles = (axis.lines() + kLanes - 1) / kLanes;
  const auto size = size_t(n * kLanes);
  parallel_for(bundles, std::max<int64_t>(1, kPoints / (n * kLanes)), [&](int64_t begin, int64_t end) {
    const Scratch<W> memory(2 * size + plan.scratch_size());
    W *re = memory.data(), *im = re + size;
    for (int64_t b = begin; b < end; ++b) {
      const Lines<kLanes> lines(axis, b * kLanes, std::min(kLanes, axis.lines() - b * kLanes));
      if (lines.count() < kLanes) std::fill(re, re + 2 * size, W(0));
      lines.visit(from, [&](const std::complex<T>& v, int64_t at) {
        re[at] = W(v.real());
        im[at] = W(v.imag());
      });
      const Planes<W> y = plan.run(re, im, im + size);
      lines.visit(to, [&](std::complex<T>& v, int64_t at) { v = {T(y.re[at]) * scale, T(y.im[at]) * scale}; });
    }
  });
}

// The largest divisor up to the square root.
int64_t split_of(int64_t n) {
  for (auto d = int64_t(std::sqrt(double(n))); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

// One long line as a table of a x b points: down its columns, times twiddles, along its rows, and read by columns.
template <class W, class T>
void transform_long(const std::complex<T>* from, std::complex<T>* x, int64_t a, int64_t b, int sign, T scale) {
  const int64_t n = a * b;
  transform_lines<W>(from, x, Axis({a, b}, 0), sign, T(1));
  const auto block = std::max<int64_t>(1, int64_t(std::sqrt(double(n))));
  std::vector<std::complex<double>> fine, coarse;  // roots 0, 1, 2 ... and 0, block, 2 block ...
  for (int64_t k = 0; k < block; ++k) fine.push_back(root_of_one(size_t(k), size_t(n)));
  for (int64_t k = 0; k < n; k += block) coarse.push_back(root_of_one(size_t(k), size_t(n)));
  for (int64_t r = 0; r < a; ++r)
    for (int64_t c = 0; c < b; ++c) {
      const int64_t at = r * c;
      std::complex<double> w = fine[size_t(at % block)] * coarse[size_t(at / block)];
      if (sign < 0) w = std::conj(w);
      std::complex<T>& v = x[r * b + c];
      v = {T(double(v.real()) * w.real() - double(v.imag()) * w.imag()),
           T(double(v.real()) * w.imag() + double(v.imag()) * w.real())};
    }
  std::vector<std::complex<T>> rows(static_cast<size_t>(n));
  transform_lines<W>(x, rows.data(), Axis({a, b}, 1), sign, scale);
  for (int64_t c = 0; c < b; ++c)
    for (int64_t r = 0; r < a; ++r) x[c * a + r] = rows[size_t(r * b + c)];
}

// A chirp adds many terms for each point; f32 lines of such lengths are summed in f64.
template <class T>
void transform(const std::complex<T>* from, std::complex<T>* to, const Dims& dims, size_t dim, int sign, T scale) {
  constexpr int64_t kLong = 1 << 12;  // from here on lanes without a line cost more than the table
  const Axis axis(dims, dim);
  const bool is_wide = sizeof(T) == 8 || Fourier<double>::needs_chirp(size_t(axis.length));
  const int64_t a = split_of(axis.length);
  if (axis.length >= kLong && axis.inner == 1 && axis.outer < int64_t(Fourier<T>::kLanes) && a > 8 && !is_wide) {
    for (int64_t l = 0; l < axis.outer * axis.length; l += axis.length)
      transform_long<T>(from + l, to + l, a, axis.length / a, sign, scale);
  } else if (is_wide) {
    transform_lines<double>(from, to, axis, sign, scale);
  } else {
    transform_lines<T>(from, to, axis, sign, scale);
  }
}

// The first half of the spectrum of real lines along the last dim. An even length is half as many complex points,
// which lie as the real ones do.
template <class T>
void from_real(const T* x, std::complex<T>* out, int64_t lines, int64_t n) {
  using C = std::complex<T>;
  const bool is_even = n % 2 == 0;
  const int64_t points = is_even ? n / 2 : n, bins = n / 2 + 1;
  const Scratch<C> memory(size_t(lines * points));
  C* z = memory.data();
  if (!is_even) std::copy_n(x, lines * points, z);
  transform(is_even ? reinterpret_cast<const C*>(x) : z, z, {lines, points}, 1, -1, T(1));
  std::vector<C> twiddle;
  for (int64_t k = 0; k < bins; ++k) twiddle.push_back(C(std::conj(root_of_one(size_t(k), size_t(n)))));
  for (int64_t l = 0; l < lines; ++l, z += points, out += bins) {
    if (!is_even) {
      std::copy_n(z, bins, out);
      continue;
    }
    for (int64_t k = 0; k < bins; ++k) {
      const C &a = z[k < points ? k : 0], &b = z[k ? points - k : 0], &w = twiddle[size_t(k)];
      const T a_re = a.real(), a_im = a.imag(), b_re = b.real(), b_im = b.imag(), w_re = w.real(), w_im = w.imag();
      const T even_re = (a_re + b_re) / 2, even_im = (a_im - b_im) / 2;
      const T odd_re = (a_im + b_im) / 2, odd_im = (b_re - a_re) / 2;
      out[k] = {even_re + odd_re * w_re - odd_im * w_im, even_im + odd_re * w_im + odd_im * w_re};
    }
  }
}

// Real lines along the last dim of the first half of their spectrum; what is imaginary of its ends is not looked at.
template <class T>
void to_real(const std::complex<T>* x, T* out, int64_t lines, int64_t n, T scale) {
  using C = std::complex<T>;
  const bool is_even = n % 2 == 0;
  const int64_t points = is_even ? n / 2 : n, bins = n / 2 + 1;
  const Scratch<C> memory(size_t(lines * points));
  std::vector<C> twiddle;
  for (int64_t k = 0; k < points; ++k) twiddle.push_back(C(root_of_one(size_t(k), size_t(n))));
  C* z = memory.data();
  for (int64_t l = 0; l < lines; ++l, x += bins, z += points) {
    const auto value = [&](int64_t k) { return C(x[k].real(), k == 0 || 2 * k == n ? T(0) : x[k].imag()); };
    for (int64_t k = 0; !is_even && k < points; ++k) z[k] = k < bins ? value(k) : std::conj(value(n - k));
    for (int64_t k = 0; is_even && k < points; ++k) {
      const C a = value(k), b = std::conj(value(points - k)), d = a - b, w = twiddle[size_t(k)];
      z[k] = {a.real() + b.real() - (d.real() * w.imag() + d.imag() * w.real()),
              a.imag() + b.imag() + (d.real() * w.real() - d.imag() * w.imag())};
    }
  }
  z = memory.data();
  transform(z, is_even ? reinterpret_cast<C*>(out) : z, {lines, points}, 1, 1, scale);
  for (int64_t i = 0; !is_even && i < lines * points; ++i) out[i] = z[i].real();
}

template <class T>
void run(const Eval& e) {
  using C = std::complex<T>;
  const std::string_view type = e.node.attrs.text("fft_type");
  const ir::Ints& lengths = e.node.attrs.ints("fft_length");
  const size_t rank = e.in[0].dims.size(), first = rank - lengths.size();
  const int64_t n = lengths.back(), lines = e.out[0].elements() / e.out[0].dims.back();
  const int sign = type == "IFFT" || type == "IRFFT" ? 1 : -1;
  double points = 1;
  for (int64_t length : lengths) points *= double(length);
  const T scale = sign > 0 ? T(1 / points) : T(1);
  if (type == "IRFFT") {
    std::vector<C> x(e.in[0].as<C>(), e.in[0].as<C>() + e.in[0].elements());
    for (size_t d = first; d + 1 < rank; ++d) transform(x.data(), x.data(), e.in[0].dims, d, sign, T(1));
    return to_real(x.data(), e.out[0].as<T>(), lines, n, scale);
  }
  C* out = e.out[0].as<C>();
  if (type == "RFFT") {
    from_real(e.in[0].as<T>(), out, lines, n);
  } else {
    transform(e.in[0].as<C>(), out, e.out[0].dims, rank - 1, sign, scale);
  }
  for (size_t d = first; d + 1 < rank; ++d) transform(out, out, e.out[0].dims, d, sign, T(1));
}

Result<void> eval(const Eval& e) {
  if (e.out[0].elements() == 0) return {};
  const bool is_double = e.out[0].dtype == Dtype::f64 || e.out[0].dtype == Dtype::c128;
  is_double ? run<double>(e) : run<float>(e);
  return {};
}

}  // namespace

extern const Op op_fft{
    .name = "fft", .kind = OpKind::other, .arity = 1, .attrs = "fft_type fft_length", .infer = infer, .eval = eval};

}  // namespace trine::ops
