// Radix two in place; other lengths as a convolution with a chirp of a power-of-two length (Bluestein, 1970).
#include "ops/fourier.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace trine::ops {

namespace {

using C = std::complex<double>;

C times(const C& a, const C& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// exp(2 pi i * numerator / denominator), exact in the quarters.
C root(uint64_t numerator, uint64_t denominator) {
  numerator %= denominator;
  const uint64_t eighths = numerator * 8 / denominator;
  // Angles beyond an eighth turn are folded back, so that symmetric factors are symmetric.
  const uint64_t quarter = (eighths + 1) / 2;
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

}  // namespace

Fourier::Fourier(size_t length, int sign) : length_(length), sign_(sign) {
  if (length < 2) return;
  const bool is_power = std::has_single_bit(length);
  padded_ = is_power ? length : std::bit_ceil(2 * length - 1);
  roots_.resize(padded_ / 2);
  for (size_t k = 0; k < roots_.size(); ++k) roots_[k] = std::conj(root(k, padded_));
  if (is_power) return;
  chirp_.resize(length);
  filter_.assign(padded_, 0);
  scratch_.resize(padded_);
  for (size_t k = 0; k < length; ++k) {
    const C r = root(uint64_t(k) * k % (2 * length), 2 * length);
    chirp_[k] = sign > 0 ? r : std::conj(r);
    filter_[k] = std::conj(chirp_[k]);
    if (k) filter_[padded_ - k] = filter_[k];
  }
  powers_of_two(filter_, false);
}

void Fourier::powers_of_two(std::span<C> x, bool is_inverse) const {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j |= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (size_t half = 1; half < n; half *= 2)
    for (size_t start = 0; start < n; start += 2 * half)
      for (size_t k = 0; k < half; ++k) {
        const C& w = roots_[k * (n / (2 * half))];
        const C b = times(x[start + half + k], is_inverse ? std::conj(w) : w), a = x[start + k];
        x[start + k] = a + b;
        x[start + half + k] = a - b;
      }
}

void Fourier::run(std::span<C> x) {
  if (length_ < 2) return;
  if (chirp_.empty()) return powers_of_two(x, sign_ > 0);
  std::fill(scratch_.begin(), scratch_.end(), C{});
  for (size_t k = 0; k < length_; ++k) scratch_[k] = times(x[k], chirp_[k]);
  powers_of_two(scratch_, false);
  for (size_t k = 0; k < padded_; ++k) scratch_[k] = times(scratch_[k], filter_[k]);
  powers_of_two(scratch_, true);
  for (size_t k = 0; k < length_; ++k) x[k] = times(scratch_[k], chirp_[k]) / double(padded_);
}

}  // namespace trine::ops
