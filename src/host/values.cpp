// The formats base/number/convert.h has no loop for (f8 of the host, f4 in bytes) have at most 256 values.
#include "host/values.h"

#include <array>
#include <cstring>

#include "base/number/convert.h"
#include "base/number/element.h"

namespace trine::host {

namespace {

bool has_loop(Dtype dtype) { return bits(dtype) >= 8 && row_kernels(dtype, Simd::portable).widen; }

void copy(const void* from, void* to, size_t n) { std::memcpy(to, from, n * sizeof(float)); }

using Table = std::array<float, 256>;
const Table& table_of(Dtype dtype) {
  static const auto tables = [] {
    std::array<Table, kDtypes.size()> out{};
    for (const DtypeRow& r : kDtypes) {
      if (r.kind != DtypeKind::floating || r.bits > 8) continue;
      dispatch_element(r.dtype, [&](auto e) {
        using E = decltype(e);
        if constexpr (E::kIsFloating && E::kBits <= 8) {
          for (size_t i = 0; i < 256; ++i) out[size_t(r.dtype)][i] = float(e.load(uint8_t(i & ((1u << E::kBits) - 1))));
        }
      });
    }
    return out;
  }();
  return tables[size_t(dtype)];
}

}  // namespace

void widen_values(Dtype dtype, const void* from, float* to, size_t n, Simd simd) {
  if (dtype == Dtype::f32) return copy(from, to, n);
  if (has_loop(dtype)) return row_kernels(dtype, simd).widen(from, to, n);
  const Table& table = table_of(dtype);
  auto* p = static_cast<const uint8_t*>(from);
  for (size_t i = 0; i < n; ++i) to[i] = table[p[i]];
}

void round_values(Dtype dtype, const float* from, void* to, size_t n, Simd simd) {
  if (dtype == Dtype::f32) return copy(from, to, n);
  if (has_loop(dtype)) return row_kernels(dtype, simd).round(from, to, n, nullptr);
  dispatch_element(dtype, [&](auto e) {
    using E = decltype(e);
    if constexpr (E::kIsFloating && E::kBits <= 8) {
      auto* p = static_cast<uint8_t*>(to);
      for (size_t i = 0; i < n; ++i) p[i] = e.store(double(from[i]));
    }
  });
}

}  // namespace trine::host
