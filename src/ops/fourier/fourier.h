// The discrete Fourier transform of several lines of one length at once, in f32 or f64: a line per vector lane. Lengths
// are split into factors of 4, 2, 3, 5 and small primes; where a larger prime is left, the line becomes a convolution
// with a chirp of a friendlier length (Bluestein, 1970). Bit-equal with and without vector instructions.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace trine::ops {

template <class T>
struct Planes {
  T *re = nullptr, *im = nullptr;  // arrays of real and imaginary parts
};

template <class T>
inline constexpr size_t kFourierLanes = 32 / sizeof(T);  // a vector of AVX2

template <class T>
struct FourierStep {
  size_t radix = 2, before = 1, after = 1;  // before: product of the factors done; radix * before * after is the length
  std::vector<T> re, im;                    // factors exp(-2 pi i m k before / length) at (m - 1) * after + k
  std::vector<T> root_re, root_im;          // exp(-2 pi i k / radix), of a radix without code of its own
};

// What is done to planes, in vectors: element k of lane l at k * lanes + l.
template <class T>
struct FourierKernels {
  using Line = std::complex<T>;
  // One step from `from` to `to`, both length * lanes.
  void (*step)(const FourierStep<T>& step, Planes<T> from, Planes<T> to);
  // n numbers of every lane: a lane's lie side by side, one lane's first `apart` from the next one's.
  void (*read_rows)(const Line* from, size_t apart, size_t n, Planes<T> to);
  void (*write_rows)(Planes<T> from, Line* to, size_t apart, size_t n, T scale);
  // The lanes' numbers lie side by side, those of the next index `apart` further.
  void (*read_columns)(const Line* from, size_t apart, size_t n, Planes<T> to);
  void (*write_columns)(Planes<T> from, Line* to, size_t apart, size_t n, T scale);
  // n numbers of every lane times as many of `by`, a multiple of the lanes; then lanes become numbers and numbers
  // lanes: number k of lane l goes to lane k % lanes at (k / lanes * apart + l) * lanes, for the first `count` lanes.
  void (*twiddle)(Planes<const T> from, Planes<const T> by, size_t n, Planes<T> to, size_t apart, size_t count);
  // n numbers of every lane, each by the same number of `by`.
  void (*times)(Planes<const T> from, const Line* by, size_t n, Planes<T> to);
  // The first half of the spectrum of 2 n real numbers from that of n complex ones, and back; `by`: n + 1 and n roots.
  void (*half_of_real)(Planes<const T> from, const Line* by, size_t n, Planes<T> to);
  void (*real_of_half)(Planes<const T> from, const Line* by, size_t n, Planes<T> to);
};
template <class T>
const FourierKernels<T>& fourier_kernels();  // of this processor
const FourierKernels<float>& fourier_kernels_portable(float);
const FourierKernels<double>& fourier_kernels_portable(double);
const FourierKernels<float>& fourier_kernels_avx2(float);  // only where simd_best() says avx2
const FourierKernels<double>& fourier_kernels_avx2(double);

template <class T>
class Fourier {
 public:
  static constexpr size_t kLanes = kFourierLanes<T>;
  static constexpr size_t kRadixMax = 19;  // beyond, the chirp is cheaper

  Fourier(size_t length, int sign);

  // x[k] = sum over j of x[j] exp(sign * 2 pi i j k / length), not scaled; x[k] of lane l at k * kLanes + l.
  // Gives where the result is: in x or in the scratch.
  Planes<T> run(T* re, T* im, T* scratch) const;
  size_t scratch_size() const;  // of T
  size_t bytes() const;         // of its tables
  static bool needs_chirp(size_t length);

 private:
  Planes<T> forward(T* re, T* im, T* scratch) const;
  Planes<T> by_chirp(T* re, T* im, T* scratch) const;

  size_t length_ = 0;
  int sign_ = -1;
  std::vector<FourierStep<T>> steps_;
  std::unique_ptr<const Fourier> padded_;  // of the chirp's length
  size_t padded_length_ = 0;
  std::vector<std::complex<T>> chirp_, filter_;  // exp(-pi i k^2 / length), and its conjugate's transform, scaled
};

// One line as a table: its columns are transformed side by side, turned by roots, then its rows.
template <class T>
class FourierTable {
 public:
  static constexpr size_t kLanes = kFourierLanes<T>;

  static size_t rows_for(size_t length);  // 0 where a line of this length is no such table
  FourierTable(size_t length, int sign);

  // `to` may be `from`.
  void run(const std::complex<T>* from, std::complex<T>* to, T scale) const;
  size_t bytes() const;

 private:
  size_t rows_, columns_;
  Fourier<T> down_, along_;
  std::vector<T> re_, im_;  // roots by which a number is turned: of kLanes columns a whole table after the other
};

std::complex<double> root_of_one(size_t numerator, size_t denominator);  // exp(2 pi i * numerator / denominator)

// Plans and roots of the last lengths are at hand.
template <class T>
std::shared_ptr<const Fourier<T>> find_fourier(size_t length, int sign);
template <class T>
std::shared_ptr<const FourierTable<T>> find_fourier_table(size_t length, int sign);
// exp(sign * 2 pi i k / length) for k < count
template <class T>
std::shared_ptr<const std::vector<std::complex<T>>> find_roots(size_t length, size_t count, int sign);

}  // namespace trine::ops
