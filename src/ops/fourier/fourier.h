// The discrete Fourier transform of several lines of one length at once, in f32 or f64: a line per vector lane. Lengths
// are split into factors of 4, 2, 3, 5 and small primes; where a larger prime is left, the line becomes a convolution
// with a chirp of a friendlier length (Bluestein, 1970). Bit-equal with and without vector instructions.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <vector>

namespace trine::ops {

template <class T>
struct Planes {
  T *re = nullptr, *im = nullptr;  // arrays of real and imaginary parts
};

template <class T>
struct FourierStep {
  size_t radix = 2, before = 1, after = 1;  // before: product of the factors done; radix * before * after is the length
  std::vector<T> re, im;                    // factors exp(-2 pi i m k before / length) at (m - 1) * after + k
  std::vector<T> root_re, root_im;          // exp(-2 pi i k / radix), of a radix without code of its own
};

template <class T>
class Fourier {
 public:
  static constexpr size_t kLanes = 32 / sizeof(T);  // a vector of AVX2
  static constexpr size_t kRadixMax = 19;           // beyond, the chirp is cheaper

  Fourier(size_t length, int sign);

  // x[k] = sum over j of x[j] exp(sign * 2 pi i j k / length), not scaled; x[k] of lane l at k * kLanes + l.
  // Gives where the result is: in x or in the scratch.
  Planes<T> run(T* re, T* im, T* scratch) const;
  size_t scratch_size() const;  // of T
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

std::complex<double> root_of_one(size_t numerator, size_t denominator);  // exp(2 pi i * numerator / denominator)

// One step from `from` to `to`, both length * kLanes. avx2 only where simd_best() says so.
void fourier_step_portable(const FourierStep<float>& step, Planes<float> from, Planes<float> to);
void fourier_step_portable(const FourierStep<double>& step, Planes<double> from, Planes<double> to);
void fourier_step_avx2(const FourierStep<float>& step, Planes<float> from, Planes<float> to);
void fourier_step_avx2(const FourierStep<double>& step, Planes<double> from, Planes<double> to);

}  // namespace trine::ops
