// Checks, the batch, and the choice to compute the transpose when C lies by columns.
#include "host/gemm/gemm.h"

#include <utility>

#include "base/pool.h"
#include "base/text.h"
#include "host/gemm/matvec.h"

namespace trine::host {

namespace {

Result<Family> check(const Gemm& g) {
  if (g.m < 0 || g.n < 0 || g.k < 0 || g.batch < 0) {
    return fail(Code::invalid,
                cat("a multiply of ", g.batch, " x ", g.m, "x", g.n, "x", g.k, "; sizes are at least 0"));
  }
  const Family family = TRY(family_of(g.a.dtype));
  const Dtype b_dtype = g.packed_b ? g.packed_b->dtype() : g.b.dtype;
  if (TRY(family_of(b_dtype)) != family || (g.c.data && !can_store(family, g.c.dtype))) {
    return fail(Code::unsupported, cat("cannot multiply matrices of ", row(g.a.dtype).name, " by ", row(b_dtype).name,
                                       " into ", row(g.c.dtype).name));
  }
  if (const PackedMatrix* p = g.packed_b) {
    if (p->k() != g.k || p->n() != g.n || (p->batch() != g.batch && p->batch() != 1)) {
      return fail(Code::invalid, cat("B was packed as ", p->batch(), " x ", p->k(), "x", p->n(), "; expected ", g.batch,
                                     " (or 1) x ", g.k, "x", g.n));
    }
  }
  if (!g.c.data && !g.epilogue.run) return fail(Code::invalid, "a multiply with neither a result nor an epilogue");
  return family;
}

const void* item(const Matrix& m, int64_t index) {
  return static_cast<const std::byte*>(m.data) + index * m.batch_stride * bytes(m.dtype);
}

void run_item(const Gemm& g, Family family, int64_t index) {
  if (runs_as_matvec(g)) return run_matvec(g, family, index);
  const StridedPanels a{item(g.a, index), g.a.dtype, family, g.a.row_stride, g.a.col_stride, g.k, g.simd};
  const StridedPanels b{g.packed_b ? nullptr : item(g.b, index),
                        g.packed_b ? g.packed_b->dtype() : g.b.dtype,
                        family,
                        g.b.col_stride,
                        g.b.row_stride,
                        g.k,
                        g.simd};
  Blocked w{.m = g.m, .n = g.n, .depth = depth_steps(family, g.k), .family = family, .a = a.source(), .b = b.source()};
  w.packed_b = g.packed_b;
  w.packed_item = g.packed_b && g.packed_b->batch() > 1 ? index : 0;
  w.simd = g.simd;
  auto* c = static_cast<std::byte*>(g.c.data);
  if (c) c += index * g.c.batch_stride * bytes(g.c.dtype);
  w.out = {c, g.c.dtype, g.c.row_stride, g.c.col_stride, g.epilogue, g.row_base + index * g.m};
  run_blocked(w);
}

// C by columns is its transpose by rows.
Gemm transposed(const Gemm& g) {
  Gemm t = g;
  std::swap(t.m, t.n);
  std::swap(t.a, t.b);
  std::swap(t.a.row_stride, t.a.col_stride);
  std::swap(t.b.row_stride, t.b.col_stride);
  std::swap(t.c.row_stride, t.c.col_stride);
  return t;
}

}  // namespace

Result<void> gemm(const Gemm& g) {
  const Family family = TRY(check(g));
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  if (g.c.data && g.c.col_stride != 1 && g.c.row_stride == 1 && !g.packed_b && !g.epilogue.run && g.n > 1) {
    return gemm(transposed(g));
  }
  const bool side_by_side = g.batch >= pool_threads();
  if (!side_by_side) {
    for (int64_t i = 0; i < g.batch; ++i) run_item(g, family, i);
    return {};
  }
  parallel_for(g.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_item(g, family, i);
  });
  return {};
}

}  // namespace trine::host
