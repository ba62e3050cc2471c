// fft: the discrete Fourier transform over the last dims, as many as fft_length has. FFT and IFFT take and give complex
// numbers; RFFT keeps the n/2+1 first of a real input's, IRFFT gives the real result of such a half. Inverses divide
// by the number of points. C1: fft_length has 1 to 3 entries, the sizes of those dims (of IRFFT: of the result).
#include <algorithm>
#include <type_traits>

#include "base/pool.h"
#include "ops/fourier/fourier.h"
#include "ops/fourier/memory.h"
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
  bool are_beside(int64_t first, int64_t count) const { return first % inner + count <= inner; }
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

// A bundle of lines to and from planes, by vectors where they lie side by side.
template <class W, class T>
void read_lines(const std::complex<T>* from, const Axis& axis, int64_t first, int64_t count, Planes<W> to) {
  constexpr auto kLanes = int64_t(Fourier<W>::kLanes);
  if constexpr (std::is_same_v<W, T>) {
    const FourierKernels<T>& kernels = fourier_kernels<T>();
    const std::complex<T>* at = from + axis.start(first);
    if (count == kLanes && axis.inner == 1) return kernels.read_rows(at, size_t(axis.length), size_t(axis.length), to);
    if (count == kLanes && axis.are_beside(first, kLanes))
      return kernels.read_columns(at, size_t(axis.inner), size_t(axis.length), to);
  }
  if (count < kLanes) {
    std::fill_n(to.re, axis.length * kLanes, W(0));
    std::fill_n(to.im, axis.length * kLanes, W(0));
  }
  Lines<kLanes>(axis, first, count).visit(from, [&](const std::complex<T>& v, int64_t at) {
    to.re[at] = W(v.real());
    to.im[at] = W(v.imag());
  });
}
template <class W, class T>
void write_lines(Planes<W> from, std::complex<T>* to, const Axis& axis, int64_t first, int64_t count, T scale) {
  constexpr auto kLanes = int64_t(Fourier<W>::kLanes);
  if constexpr (std::is_same_v<W, T>) {
    const FourierKernels<T>& kernels = fourier_kernels<T>();
    std::complex<T>* at = to + axis.start(first);
    if (count == kLanes && axis.inner == 1)
      return kernels.write_rows(from, at, size_t(axis.length), size_t(axis.length), scale);
    if (count == kLanes && axis.are_beside(first, kLanes))
      return kernels.write_columns(from, at, size_t(axis.inner), size_t(axis.length), scale);
  }
  Lines<kLanes>(axis, first, count).visit(to, [&](std::complex<T>& v, int64_t at) {
    v = {T(from.re[at]) * scale, T(from.im[at]) * scale};
  });
}

// Bundles of kLanes lines: f(first, count) for each, on threads, with memory of so many numbers.
template <class W, class F>
void for_bundles(int64_t lines, int64_t length, size_t memory_size, F f) {
  constexpr auto kLanes = int64_t(Fourier<W>::kLanes);
  constexpr int64_t kPoints = 1 << 15;  // of a part of the work
  const int64_t bundles = (lines + kLanes - 1) / kLanes;
  parallel_for(bundles, std::max<int64_t>(1, kPoints / (length * kLanes)), [&](int64_t begin, int64_t end) {
    const FourierMemory<W> memory(memory_size);
    for (int64_t b = begin; b < end; ++b) f(b * kLanes, std::min(kLanes, lines - b * kLanes), memory.data());
  });
}

// Every line along one dim, kLanes of them at a time; W is what the sums are of.
template <class W, class T>
void transform_lines(const std::complex<T>* from, std::complex<T>* to, const Axis& axis, int sign, T scale) {
  const auto plan = find_fourier<W>(size_t(axis.length), sign);
  const size_t size = size_t(axis.length) * Fourier<W>::kLanes;
  for_bundles<W>(axis.lines(), axis.length, 2 * size + plan->scratch_size(), [&](int64_t first, int64_t count, W* re) {
    W* im = re + size;
    read_lines<W>(from, axis, first, count, {re, im});
    write_lines<W>(plan->run(re, im, im + size), to, axis, first, count, scale);
  });
}

// A line alone, or so long that a bundle of such lines would leave the first cache.
template <class T>
bool is_by_table(int64_t lines, int64_t length) {
  constexpr int64_t kLong = 512;
  return (lines < int64_t(Fourier<T>::kLanes) || length >= kLong) && FourierTable<T>::rows_for(size_t(length)) > 0;
}

// A chirp adds many terms for each point; f32 lines of such lengths are summed in f64.
template <class T>
void transform(const std::complex<T>* from, std::complex<T>* to, const Dims& dims, size_t dim, int sign, T scale) {
  const Axis axis(dims, dim);
  if (axis.inner == 1 && is_by_table<T>(axis.outer, axis.length)) {
    const auto table = find_fourier_table<T>(size_t(axis.length), sign);
    parallel_for(axis.outer, std::max<int64_t>(1, (1 << 15) / axis.length), [&](int64_t begin, int64_t end) {
      for (int64_t l = begin; l < end; ++l) table->run(from + l * axis.length, to + l * axis.length, scale);
    });
  } else if (sizeof(T) == 8) {
    transform_lines<double>(from, to, axis, sign, scale);
  } else {
    transform_lines<T>(from, to, axis, sign, scale);
  }
}

// Lines of an even length are half as many complex points, which lie as the real ones do.
template <class T>
bool is_by_bundles(int64_t lines, int64_t n) {
  return n % 2 == 0 && !is_by_table<T>(lines, n / 2) && !Fourier<T>::needs_chirp(size_t(n / 2));
}

// The first half of the spectrum of real lines along the last dim.
template <class T>
void from_real(const T* x, std::complex<T>* out, int64_t lines, int64_t n) {
  using C = std::complex<T>;
  const bool is_even = n % 2 == 0;
  const int64_t points = is_even ? n / 2 : n, bins = n / 2 + 1;
  const auto roots = find_roots<T>(size_t(n), size_t(bins), -1);
  if (is_by_bundles<T>(lines, n)) {
    const auto plan = find_fourier<T>(size_t(points), -1);
    const Axis from({lines, points}, 1), to({lines, bins}, 1);
    const size_t size = size_t(bins) * Fourier<T>::kLanes;
    const auto one = [&](int64_t first, int64_t count, T* re) {
      T *im = re + size, *half = im + size;
      read_lines<T>(reinterpret_cast<const C*>(x), from, first, count, {re, im});
      const Planes<T> y = plan->run(re, im, half + 2 * size);
      fourier_kernels<T>().half_of_real({y.re, y.im}, roots->data(), size_t(points), {half, half + size});
      write_lines<T>({half, half + size}, out, to, first, count, T(1));
    };
    return for_bundles<T>(lines, n, 4 * size + plan->scratch_size(), one);
  }
  const FourierMemory<C> memory(size_t(lines * points));
  C* z = memory.data();
  if (!is_even) std::copy_n(x, lines * points, z);
  transform(is_even ? reinterpret_cast<const C*>(x) : z, z, {lines, points}, 1, -1, T(1));
  for (int64_t l = 0; l < lines; ++l, z += points, out += bins) {
    if (!is_even) {
      std::copy_n(z, bins, out);
      continue;
    }
    for (int64_t k = 0; k < bins; ++k) {
      const C &a = z[k < points ? k : 0], &b = z[k ? points - k : 0], &w = (*roots)[size_t(k)];
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
  const auto roots = find_roots<T>(size_t(n), size_t(points), 1);
  if (is_by_bundles<T>(lines, n)) {
    const auto plan = find_fourier<T>(size_t(points), 1);
    const Axis from({lines, bins}, 1), to({lines, points}, 1);
    const size_t size = size_t(bins) * Fourier<T>::kLanes;
    const auto one = [&](int64_t first, int64_t count, T* re) {
      T *im = re + size, *half = im + size;
      read_lines<T>(x, from, first, count, {half, half + size});
      fourier_kernels<T>().real_of_half({half, half + size}, roots->data(), size_t(points), {re, im});
      write_lines<T>(plan->run(re, im, half + 2 * size), reinterpret_cast<C*>(out), to, first, count, scale);
    };
    return for_bundles<T>(lines, n, 4 * size + plan->scratch_size(), one);
  }
  const FourierMemory<C> memory(size_t(lines * points));
  C* z = memory.data();
  for (int64_t l = 0; l < lines; ++l, x += bins, z += points) {
    const auto value = [&](int64_t k) { return C(x[k].real(), k == 0 || 2 * k == n ? T(0) : x[k].imag()); };
    for (int64_t k = 0; !is_even && k < points; ++k) z[k] = k < bins ? value(k) : std::conj(value(n - k));
    for (int64_t k = 0; is_even && k < points; ++k) {
      const C a = value(k), b = std::conj(value(points - k)), d = a - b, w = (*roots)[size_t(k)];
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
    if (lengths.size() == 1) return to_real(e.in[0].as<const C>(), e.out[0].as<T>(), lines, n, scale);
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
