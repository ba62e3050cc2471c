// Random matrices of any dtype and layout, and their product in f64 or in wrapping integers: what the kernels are held
// to.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "base/number/element.h"
#include "base/number/random.h"
#include "host/gemm/gemm.h"

namespace trine::host {

// rows x cols elements of a dtype in memory of their own, with room around and between them.
struct Held {
  Dtype dtype = Dtype::f32;
  int64_t rows = 0, cols = 0, batch = 1;
  int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
  std::vector<std::byte> bytes = {};

  std::byte* at(int64_t item, int64_t r, int64_t c) {
    return bytes.data() + (item * batch_stride + r * row_stride + c * col_stride) * trine::bytes(dtype);
  }
  Matrix matrix() { return {bytes.data(), dtype, row_stride, col_stride, batch_stride}; }
  Gemm::Out out() { return {bytes.data(), dtype, row_stride, col_stride, batch_stride}; }
  std::complex<double> value(int64_t item, int64_t r, int64_t c) {
    return dispatch_element(dtype, [&](auto e) -> std::complex<double> {
      typename decltype(e)::Storage s;
      std::memcpy(&s, at(item, r, c), sizeof s);
      if constexpr (decltype(e)::kIsComplex) {
        return e.load(s);
      } else {
        return double(e.load(s));
      }
    });
  }
  uint64_t integer(int64_t item, int64_t r, int64_t c) {
    return dispatch_element(dtype, [&](auto e) -> uint64_t {
      typename decltype(e)::Storage s;
      std::memcpy(&s, at(item, r, c), sizeof s);
      if constexpr (decltype(e)::kIsInteger || decltype(e)::kIsBoolean) {
        return uint64_t(e.load(s));
      } else {
        return 0;
      }
    });
  }
};

enum class Layout : uint8_t { rows, columns, padded_rows, padded_columns, spread };

inline Held held(Dtype dtype, int64_t batch, int64_t rows, int64_t cols, Layout layout) {
  Held h{dtype, rows, cols, batch};
  const int64_t pad = layout == Layout::rows || layout == Layout::columns ? 0 : 3;
  const bool by_columns = layout == Layout::columns || layout == Layout::padded_columns;
  const int64_t spread = layout == Layout::spread ? 2 : 1;
  h.col_stride = by_columns ? rows + pad : spread;
  h.row_stride = by_columns ? 1 : cols * spread + pad;
  h.batch_stride = rows * cols * spread + pad * (by_columns ? cols : rows) + pad;
  h.bytes.resize(size_t((h.batch_stride * batch + 1) * trine::bytes(dtype)), std::byte{0x55});
  return h;
}

inline void fill(Held& h, uint64_t seed) {
  uint64_t index = 0;
  for (int64_t i = 0; i < h.batch; ++i) {
    for (int64_t r = 0; r < h.rows; ++r) {
      for (int64_t c = 0; c < h.cols; ++c) {
        const uint64_t bits = uint64_t(random_at(seed, index)) << 32 | random_at(seed + 1, index);
        ++index;
        const double x = double(uniform(uint32_t(bits))) * 2 - 1;
        dispatch_element(h.dtype, [&](auto e) {
          using E = decltype(e);
          typename E::Storage s;
          if constexpr (E::kIsComplex) {
            s = e.store({x, double(uniform(uint32_t(bits >> 32))) * 2 - 1});
          } else if constexpr (E::kIsFloating) {
            s = e.store(h.dtype == Dtype::f8e8m0 ? std::exp2(std::floor(x * 3)) : x);
          } else if constexpr (E::kIsBoolean) {
            s = bits % 8 == 0;
          } else {
            s = e.store(typename E::Wide(bits));
          }
          std::memcpy(h.at(i, r, c), &s, sizeof s);
        });
      }
    }
  }
}

}  // namespace trine::host
