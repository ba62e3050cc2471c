// Plans of transforms: a length's factors and their tables, or its chirp.
#include "ops/fourier/fourier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/simd.h"

namespace trine::ops {

namespace {

std::vector<size_t> factors_of(size_t length) {
  std::vector<size_t> out;
  for (; length % 4 == 0; length /= 4) out.push_back(4);
  for (size_t f = 2; f * f <= length; f += f == 2 ? 1 : 2)
    for (; length % f == 0; length /= f) out.push_back(f);
  if (length > 1) out.push_back(length);
  return out;
}

template <class T>
FourierStep<T> make_step(size_t radix, size_t before, size_t length) {
  FourierStep<T> step{radix, before, length / radix / before, {}, {}, {}, {}};
  for (size_t m = 1; m < radix; ++m)
    for (size_t k = 0; k < step.after; ++k) {
      const std::complex<double> w = std::conj(root_of_one(m * k * before % length, length));
      step.re.push_back(T(w.real()));
      step.im.push_back(T(w.imag()));
    }
  for (size_t k = 0; radix > 5 && k < radix; ++k) {
    const std::complex<double> w = std::conj(root_of_one(k, radix));
    step.root_re.push_back(T(w.real()));
    step.root_im.push_back(T(w.imag()));
  }
  return step;
}

}  // namespace

// Angles beyond an eighth of a circle are folded back, so that symmetric factors are symmetric and the quarters exact.
std::complex<double> root_of_one(size_t numerator, size_t denominator) {
  numerator %= denominator;
  const uint64_t eighths = numerator * 8 / denominator, quarter = (eighths + 1) / 2;
  const double rest = (double(numerator) - double(quarter) * double(denominator) / 4) / double(denominator);
  const double c = std::cos(2 * std::numbers::pi * rest), s = std::sin(2 * std::numbers::pi * rest);
  switch (quarter % 4) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

template <class T>
bool Fourier<T>::needs_chirp(size_t length) {
  const std::vector<size_t> factors = factors_of(length);
  return std::any_of(factors.begin(), factors.end(), [](size_t f) { return f > kRadixMax; });
}

template <class T>
Fourier<T>::Fourier(size_t length, int sign) : length_(length), sign_(sign) {
  if (length < 2) return;
  if (!needs_chirp(length)) {
    size_t before = 1;
    for (size_t radix : factors_of(length)) {
      steps_.push_back(make_step<T>(radix, before, length));
      before *= radix;
    }
    return;
  }
  padded_length_ = std::bit_ceil(2 * length - 1);
  padded_ = std::make_unique<const Fourier>(padded_length_, -1);
  std::vector<T> re(padded_length_ * kLanes), im(re.size()), scratch(padded_->scratch_size());
  for (size_t k = 0; k < length; ++k) {
    const std::complex<double> w = std::conj(root_of_one(uint64_t(k) * k % (2 * length), 2 * length));
    chirp_.emplace_back(T(w.real()), T(w.imag()));
    for (size_t at : {k, (padded_length_ - k) % padded_length_}) {
      re[at * kLanes] = T(w.real());
      im[at * kLanes] = T(-w.imag());
    }
  }
  const Planes<T> spectrum = padded_->run(re.data(), im.data(), scratch.data());
  for (size_t k = 0; k < padded_length_; ++k)
    filter_.emplace_back(spectrum.re[k * kLanes] / T(padded_length_), spectrum.im[k * kLanes] / T(padded_length_));
}

template <class T>
size_t Fourier<T>::scratch_size() const {
  return padded_ ? 2 * padded_length_ * kLanes + padded_->scratch_size() : 2 * length_ * kLanes;
}

// An inverse is the forward transform of real and imaginary parts exchanged.
template <class T>
Planes<T> Fourier<T>::run(T* re, T* im, T* scratch) const {
  if (length_ < 2) return {re, im};
  if (sign_ > 0) std::swap(re, im);
  Planes<T> out = forward(re, im, scratch);
  if (sign_ > 0) std::swap(out.re, out.im);
  return out;
}

template <class T>
Planes<T> Fourier<T>::forward(T* re, T* im, T* scratch) const {
  if (padded_) return by_chirp(re, im, scratch);
  const bool is_avx2 = simd_best() == Simd::avx2;
  Planes<T> from{re, im}, to{scratch, scratch + length_ * kLanes};
  for (const FourierStep<T>& step : steps_) {
    is_avx2 ? fourier_step_avx2(step, from, to) : fourier_step_portable(step, from, to);
    std::swap(from, to);
  }
  return from;
}

template <class T>
Planes<T> Fourier<T>::by_chirp(T* re, T* im, T* scratch) const {
  T *wide_re = scratch, *wide_im = scratch + padded_length_ * kLanes, *rest = wide_im + padded_length_ * kLanes;
  const auto times = [](Planes<T> to, Planes<T> from, size_t k, const std::complex<T>& w) {
    const T r = from.re[k], i = from.im[k];
    to.re[k] = r * w.real() - i * w.imag();
    to.im[k] = r * w.imag() + i * w.real();
  };
  for (size_t k = 0; k < length_ * kLanes; ++k) times({wide_re, wide_im}, {re, im}, k, chirp_[k / kLanes]);
  std::fill(wide_re + length_ * kLanes, wide_im, T(0));
  std::fill(wide_im + length_ * kLanes, rest, T(0));
  const Planes<T> spectrum = padded_->run(wide_re, wide_im, rest);
  for (size_t k = 0; k < padded_length_ * kLanes; ++k) times(spectrum, spectrum, k, filter_[k / kLanes]);
  // The inverse, into whichever of both buffers is free.
  T* free = spectrum.re == wide_re ? rest : wide_re;
  const Planes<T> back = padded_->run(spectrum.im, spectrum.re, free);
  for (size_t k = 0; k < length_ * kLanes; ++k) times({re, im}, {back.im, back.re}, k, chirp_[k / kLanes]);
  return {re, im};
}

template class Fourier<float>;
template class Fourier<double>;

}  // namespace trine::ops
