// Columns are cut into tasks; each goes through the depth a block at a time, as the packed kernels do.
#include "host/gemm/matvec.h"

#include <algorithm>

#include "base/pool.h"
#include "host/thresholds.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::matvec;

template <class T>
void vec_times(const T* a, const T* b, int64_t step, int64_t apart, int64_t depth, int64_t n, T* to) {
  std::fill_n(to, n, T{});
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t j = 0; j < n; ++j) to[j] += a[d] * b[d * step + j * apart];
}

template <class T>
VecTimesMatrix<T> kernel_of(Simd simd) {
#if defined(__x86_64__)
  if constexpr (sizeof(T) == 4) {
    if (simd == Simd::avx2) return vec_times_f32_avx2();
  } else {
    if (simd == Simd::avx2) return vec_times_f64_avx2();
  }
#else
  (void)simd;
#endif
  return vec_times<T>;
}

template <class T>
const T* item_of(const Matrix& m, int64_t item) {
  return static_cast<const T*>(m.data) + item * m.batch_stride;
}

template <class T>
void run_as(const Gemm& g, Family family, int64_t item) {
  const auto kernel = kernel_of<T>(g.simd);
  const T *a = item_of<T>(g.a, item), *b = item_of<T>(g.b, item);
  Scratch dense(g.a.col_stride == 1 ? 0 : size_t(g.k) * sizeof(T));
  if (g.a.col_stride != 1) {
    for (int64_t d = 0; d < g.k; ++d) dense.as<T>()[d] = a[d * g.a.col_stride];
    a = dense.as<T>();
  }
  auto* c = static_cast<std::byte*>(g.c.data);
  if (c) c += item * g.c.batch_stride * bytes(g.c.dtype);
  const TileOut out{c, g.c.dtype, g.c.row_stride, g.c.col_stride, g.epilogue, g.row_base + item};
  const bool direct = is_direct(out, family);
  auto columns = [&](int64_t begin, int64_t end) {
    alignas(64) T own[tuned::kTaskColumns], part[tuned::kTaskColumns];
    for (int64_t j = begin; j < end; j += tuned::kTaskColumns) {
      const int64_t n = std::min(tuned::kTaskColumns, end - j);
      T* to = direct ? reinterpret_cast<T*>(c) + j : own;
      for (int64_t d = 0; d < g.k; d += kDepthBlock) {
        const int64_t steps = std::min(kDepthBlock, g.k - d);
        kernel(a + d, b + d * g.b.row_stride + j * g.b.col_stride, g.b.row_stride, g.b.col_stride, steps, n,
               d == 0 ? to : part);
        for (int64_t i = 0; d > 0 && i < n; ++i) to[i] += part[i];
      }
      finish_tile(out, family, reinterpret_cast<std::byte*>(to), n, 0, 1, j, n);
    }
  };
  if (g.n * g.k <= tuned::kInlineProducts) return columns(0, g.n);
  parallel_for((g.n + tuned::kTaskColumns - 1) / tuned::kTaskColumns, 1, [&](int64_t begin, int64_t end) {
    columns(begin * tuned::kTaskColumns, std::min(end * tuned::kTaskColumns, g.n));
  });
}

}  // namespace

bool runs_as_matvec(const Gemm& g) {
  const bool known = g.a.dtype == g.b.dtype && (g.a.dtype == Dtype::f32 || g.a.dtype == Dtype::f64);
  return g.m == 1 && g.k > 0 && !g.packed_b && known && (g.b.row_stride == 1 || g.b.col_stride == 1);
}

void run_matvec(const Gemm& g, Family family, int64_t item) {
  return family == Family::f64 ? run_as<double>(g, family, item) : run_as<float>(g, family, item);
}

}  // namespace trine::host
