// Batches of matrices: what the ops of linear algebra share. Real and complex alike, computed in doubles.
#pragma once

#include <cmath>

#include "ops/shape.h"
#include "ops/wide.h"

namespace trine::ops {

// A view of a row-major matrix.
template <class W>
struct Matrix {
  W* data = nullptr;
  int64_t rows = 0, columns = 0;

  W& operator()(int64_t r, int64_t c) const { return data[r * columns + c]; }
};

inline double conj_of(double v) { return v; }
inline Complex128 conj_of(Complex128 v) { return std::conj(v); }
inline double real_of(double v) { return v; }
inline double real_of(Complex128 v) { return v.real(); }
inline double imag_of(double) { return 0; }
inline double imag_of(Complex128 v) { return v.imag(); }
inline double square_of(double v) { return v * v; }
inline double square_of(Complex128 v) { return v.real() * v.real() + v.imag() * v.imag(); }

// The last two dims are a matrix of floats or complex numbers.
Result<void> check_matrices(const ir::Type& x);
Result<void> check_square(const ir::Type& x);

// All of a batch, loaded; matrix(i) is the i-th.
template <class W>
struct MatrixBatch {
  int64_t rows = 0, columns = 0, count = 0;
  WideArray<W> values = {};

  explicit MatrixBatch(const TensorView& x) : MatrixBatch(x.dims, load_wide<W>(x)) {}
  explicit MatrixBatch(const Dims& dims) : MatrixBatch(dims, WideArray<W>(element_count(dims))) {}
  MatrixBatch(const Dims& dims, WideArray<W> all)
      : rows(dims[dims.size() - 2]), columns(dims.back()), values(std::move(all)) {
    count = element_count(Dims(dims.begin(), dims.end() - 2));
  }
  Matrix<W> matrix(int64_t i) { return {values.at(i * rows * columns), rows, columns}; }
};

// Calls f.operator()<W>() with double or complex<double>.
template <class F>
auto dispatch_inexact(Dtype dtype, F&& f) {
  return is_complex(dtype) ? f.template operator()<Complex128>() : f.template operator()<double>();
}

}  // namespace trine::ops
