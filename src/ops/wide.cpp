// Loading and storing of wide values, once for all ops.
#include "ops/wide.h"

#include <cstring>
#include <limits>

namespace trine::ops {

namespace {

// To an integer: saturates, NaN is zero.
template <class W>
W integer_from(double v) {
  constexpr double kTop = std::is_signed_v<W> ? 0x1p63 : 0x1p64;
  if (std::isnan(v)) return 0;
  if (v >= kTop) return std::numeric_limits<W>::max();
  if (v < (std::is_signed_v<W> ? -kTop : 0.0)) return std::numeric_limits<W>::min();
  return static_cast<W>(v);
}

template <class W, class V>
W as_wide(V v) {
  if constexpr (std::is_same_v<W, V>) {
    return v;
  } else if constexpr (std::is_same_v<V, Complex128>) {
    return as_wide<W>(v.real());
  } else if constexpr (std::is_same_v<W, bool>) {
    return v != V(0);
  } else if constexpr (std::is_same_v<W, Complex128>) {
    return {static_cast<double>(v), 0.0};
  } else if constexpr (std::is_integral_v<W> && std::is_same_v<V, double>) {
    return integer_from<W>(v);
  } else {
    return static_cast<W>(v);
  }
}

// The parts of complex numbers as rows of real ones: loops that become vector code.
bool load_parts(const TensorView& from, int64_t start, int64_t count, Complex128* to) {
  auto* parts = reinterpret_cast<double*>(to);
  if (from.dtype == Dtype::c128) {
    std::memcpy(parts, from.as<const double>() + 2 * start, size_t(count) * sizeof *to);
  } else if (from.dtype == Dtype::c64) {
    const auto* in = from.as<const float>() + 2 * start;
    for (int64_t i = 0; i < 2 * count; ++i) parts[i] = double(in[i]);
  } else {
    return false;
  }
  return true;
}
bool store_parts(const Complex128* from, int64_t count, const TensorView& to, int64_t start) {
  const auto* parts = reinterpret_cast<const double*>(from);
  if (to.dtype == Dtype::c128) {
    std::memcpy(to.as<double>() + 2 * start, parts, size_t(count) * sizeof *from);
  } else if (to.dtype == Dtype::c64) {
    auto* out = to.as<float>() + 2 * start;
    for (int64_t i = 0; i < 2 * count; ++i) out[i] = float(parts[i]);
  } else {
    return false;
  }
  return true;
}

}  // namespace

template <class W>
void load_wide(const TensorView& from, int64_t start, int64_t count, W* to) {
  if constexpr (std::is_same_v<W, Complex128>) {
    if (load_parts(from, start, count, to)) return;
  }
  dispatch_element(from.dtype, [&](auto element) {
    using E = decltype(element);
    const auto* in = from.as<const typename E::Storage>() + start;
    for (int64_t i = 0; i < count; ++i) to[i] = as_wide<W>(E::load(in[i]));
  });
}

template <class W>
void store_wide(const W* from, int64_t count, const TensorView& to, int64_t start) {
  if constexpr (std::is_same_v<W, Complex128>) {
    if (store_parts(from, count, to, start)) return;
  }
  dispatch_element(to.dtype, [&](auto element) {
    using E = decltype(element);
    auto* out = to.as<typename E::Storage>() + start;
    for (int64_t i = 0; i < count; ++i) out[i] = E::store(as_wide<typename E::Wide>(from[i]));
  });
}

WideArray<int64_t> load_indices(const TensorView& from) {
  WideArray<int64_t> out(from.elements());
  if (from.dtype == Dtype::u64) {
    for (int64_t i = 0; i < out.size; ++i)
      out[i] = int64_t(std::min(from.as<const uint64_t>()[i], uint64_t(std::numeric_limits<int64_t>::max())));
  } else {
    load_wide<int64_t>(from, 0, out.size, out.data.get());
  }
  return out;
}

template void load_wide(const TensorView&, int64_t, int64_t, double*);
template void load_wide(const TensorView&, int64_t, int64_t, int64_t*);
template void load_wide(const TensorView&, int64_t, int64_t, uint64_t*);
template void load_wide(const TensorView&, int64_t, int64_t, bool*);
template void load_wide(const TensorView&, int64_t, int64_t, Complex128*);
template void store_wide(const double*, int64_t, const TensorView&, int64_t);
template void store_wide(const int64_t*, int64_t, const TensorView&, int64_t);
template void store_wide(const uint64_t*, int64_t, const TensorView&, int64_t);
template void store_wide(const bool*, int64_t, const TensorView&, int64_t);
template void store_wide(const Complex128*, int64_t, const TensorView&, int64_t);

}  // namespace trine::ops
