// Plans of transforms: a length's factors and their tables, or its chirp; and those of the last lengths.
#include "ops/fourier/fourier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <numbers>
#include <utility>

#include "base/pool.h"
#include "base/simd.h"
#include "ops/fourier/memory.h"

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
  const FourierKernels<T>& kernels = fourier_kernels<T>();
  Planes<T> from{re, im}, to{scratch, scratch + length_ * kLanes};
  for (const FourierStep<T>& step : steps_) {
    kernels.step(step, from, to);
    std::swap(from, to);
  }
  return from;
}

template <class T>
Planes<T> Fourier<T>::by_chirp(T* re, T* im, T* scratch) const {
  T *wide_re = scratch, *wide_im = scratch + padded_length_ * kLanes, *rest = wide_im + padded_length_ * kLanes;
  const FourierKernels<T>& kernels = fourier_kernels<T>();
  kernels.times({re, im}, chirp_.data(), length_, {wide_re, wide_im});
  std::fill(wide_re + length_ * kLanes, wide_im, T(0));
  std::fill(wide_im + length_ * kLanes, rest, T(0));
  const Planes<T> spectrum = padded_->run(wide_re, wide_im, rest);
  kernels.times({spectrum.re, spectrum.im}, filter_.data(), padded_length_, spectrum);
  // The inverse, into whichever of both buffers is free.
  T* free = spectrum.re == wide_re ? rest : wide_re;
  const Planes<T> back = padded_->run(spectrum.im, spectrum.re, free);
  kernels.times({back.im, back.re}, chirp_.data(), length_, {re, im});
  return {re, im};
}

template <class T>
size_t Fourier<T>::bytes() const {
  size_t sum = (chirp_.size() + filter_.size()) * sizeof(chirp_[0]) + (padded_ ? padded_->bytes() : 0);
  for (const FourierStep<T>& step : steps_) sum += 2 * (step.re.size() + step.root_re.size()) * sizeof(T);
  return sum;
}

// Rows are lanes of the second half: as many as fill vectors, and as near as may be to the square root.
template <class T>
size_t FourierTable<T>::rows_for(size_t length) {
  if (length < kLanes * kLanes || Fourier<T>::needs_chirp(length)) return 0;
  size_t best = 0;
  const auto longer = [&](size_t rows) { return std::max(rows, length / rows); };
  for (size_t rows = kLanes; rows <= length / kLanes; rows += kLanes)
    if (length % rows == 0 && (best == 0 || longer(rows) < longer(best))) best = rows;
  return best;
}

template <class T>
FourierTable<T>::FourierTable(size_t length, int sign)
    : rows_(rows_for(length)), columns_(length / rows_), down_(rows_, sign), along_(columns_, sign) {
  const auto block = std::max<size_t>(1, size_t(std::sqrt(double(length))));
  std::vector<std::complex<double>> fine, coarse;  // roots 0, 1, 2 ... and 0, block, 2 block ...
  for (size_t k = 0; k < block; ++k) fine.push_back(root_of_one(k, length));
  for (size_t k = 0; k < length; k += block) coarse.push_back(root_of_one(k, length));
  const size_t bundles = (columns_ + kLanes - 1) / kLanes;
  re_.resize(bundles * rows_ * kLanes);
  im_.resize(re_.size());
  for (size_t c = 0; c < columns_; ++c)
    for (size_t r = 0; r < rows_; ++r) {
      const std::complex<double>&f = fine[r * c % block], &g = coarse[r * c / block];
      const size_t to = (c / kLanes * rows_ + r) * kLanes + c % kLanes;
      re_[to] = T(f.real() * g.real() - f.imag() * g.imag());
      im_[to] = T((f.real() * g.imag() + f.imag() * g.real()) * sign);
    }
}

template <class T>
void FourierTable<T>::run(const std::complex<T>* from, std::complex<T>* to, T scale) const {
  constexpr size_t kPoints = 1 << 15;  // of a part of the work
  const FourierKernels<T>& kernels = fourier_kernels<T>();
  const size_t length = rows_ * columns_, bundles = (columns_ + kLanes - 1) / kLanes;
  const FourierMemory<T> by_rows(2 * length);
  const Planes<T> all{by_rows.data(), by_rows.data() + length};
  const auto part = [&](size_t points) { return int64_t(std::max<size_t>(1, kPoints / (points * kLanes))); };
  parallel_for(int64_t(bundles), part(rows_), [&](int64_t begin, int64_t end) {
    const FourierMemory<T> memory(2 * rows_ * kLanes + down_.scratch_size());
    T *re = memory.data(), *im = re + rows_ * kLanes;
    for (auto b = size_t(begin); b < size_t(end); ++b) {
      const size_t first = b * kLanes, count = std::min(kLanes, columns_ - first);
      if (count == kLanes) {
        kernels.read_columns(from + first, columns_, rows_, {re, im});
      } else {
        std::fill(re, im + rows_ * kLanes, T(0));
        for (size_t r = 0; r < rows_; ++r)
          for (size_t l = 0; l < count; ++l) {
            re[r * kLanes + l] = from[r * columns_ + first + l].real();
            im[r * kLanes + l] = from[r * columns_ + first + l].imag();
          }
      }
      const Planes<T> y = down_.run(re, im, im + rows_ * kLanes);
      const size_t roots = b * rows_ * kLanes;
      kernels.twiddle({y.re, y.im}, {re_.data() + roots, im_.data() + roots}, rows_,
                      {all.re + first * kLanes, all.im + first * kLanes}, columns_, count);
    }
  });
  parallel_for(int64_t(rows_ / kLanes), part(columns_), [&](int64_t begin, int64_t end) {
    const FourierMemory<T> memory(along_.scratch_size());
    for (auto b = size_t(begin); b < size_t(end); ++b) {
      const size_t at = b * columns_ * kLanes;
      const Planes<T> y = along_.run(all.re + at, all.im + at, memory.data());
      kernels.write_columns(y, to + b * kLanes, rows_, columns_, scale);
    }
  });
}

template <class T>
size_t FourierTable<T>::bytes() const {
  return down_.bytes() + along_.bytes() + 2 * re_.size() * sizeof(T);
}

template <>
const FourierKernels<float>& fourier_kernels<float>() {
  static const auto& found =
      simd_best() == Simd::avx2 ? fourier_kernels_avx2(float()) : fourier_kernels_portable(float());
  return found;
}
template <>
const FourierKernels<double>& fourier_kernels<double>() {
  static const auto& found =
      simd_best() == Simd::avx2 ? fourier_kernels_avx2(double()) : fourier_kernels_portable(double());
  return found;
}

namespace {

// What was made for a key, for the next that asks: the last ones, as far as they are not large.
template <class Value>
class Recent {
 public:
  struct Key {
    size_t length = 0, count = 0;
    int sign = 0;
    bool operator==(const Key&) const = default;
  };
  template <class Make, class Bytes>
  std::shared_ptr<const Value> find(const Key& key, Make make, Bytes bytes) {
    {
      const std::scoped_lock lock(mutex_);
      for (size_t i = entries_.size(); i-- > 0;)
        if (entries_[i].first == key) return entries_[i].second;
    }
    std::shared_ptr<const Value> made = make();
    if (bytes(*made) > kBytesMax) return made;
    const std::scoped_lock lock(mutex_);
    if (entries_.size() == kCountMax) entries_.erase(entries_.begin());
    entries_.emplace_back(key, made);
    return made;
  }

 private:
  static constexpr size_t kCountMax = 16, kBytesMax = size_t{1} << 21;

  std::mutex mutex_;
  std::vector<std::pair<Key, std::shared_ptr<const Value>>> entries_;  // the newest last
};

}  // namespace

template <class T>
std::shared_ptr<const Fourier<T>> find_fourier(size_t length, int sign) {
  static Recent<Fourier<T>> recent;
  return recent.find(
      {length, 0, sign}, [&] { return std::make_shared<const Fourier<T>>(length, sign); },
      [](const Fourier<T>& f) { return f.bytes(); });
}
template <class T>
std::shared_ptr<const FourierTable<T>> find_fourier_table(size_t length, int sign) {
  static Recent<FourierTable<T>> recent;
  return recent.find(
      {length, 0, sign}, [&] { return std::make_shared<const FourierTable<T>>(length, sign); },
      [](const FourierTable<T>& f) { return f.bytes(); });
}
template <class T>
std::shared_ptr<const std::vector<std::complex<T>>> find_roots(size_t length, size_t count, int sign) {
  using Roots = std::vector<std::complex<T>>;
  static Recent<Roots> recent;
  const auto make = [&] {
    auto out = std::make_shared<Roots>();
    for (size_t k = 0; k < count; ++k) {
      const std::complex<double> w = root_of_one(k, length);
      out->emplace_back(T(w.real()), T(w.imag() * sign));
    }
    return out;
  };
  return recent.find({length, count, sign}, make, [](const Roots& r) { return r.size() * sizeof(r[0]); });
}

template class Fourier<float>;
template class Fourier<double>;
template class FourierTable<float>;
template class FourierTable<double>;
template std::shared_ptr<const Fourier<float>> find_fourier(size_t, int);
template std::shared_ptr<const Fourier<double>> find_fourier(size_t, int);
template std::shared_ptr<const FourierTable<float>> find_fourier_table(size_t, int);
template std::shared_ptr<const FourierTable<double>> find_fourier_table(size_t, int);
template std::shared_ptr<const std::vector<std::complex<float>>> find_roots(size_t, size_t, int);
template std::shared_ptr<const std::vector<std::complex<double>>> find_roots(size_t, size_t, int);

}  // namespace trine::ops
