// Through the packed kernels where they know the dtypes; what they do not, by a plain loop over wide values.
#include "host/gemm/dot.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/pool.h"
#include "host/gemm/gemm.h"
#include "host/gemm/small.h"
#include "host/thresholds.h"

namespace trine::host {

using arch::GemmStep;

namespace {

namespace tuned = thresholds::small;

// Calls f(item, offsets in elements) for every index of the batch dims but the last `inner`.
template <class F>
Result<void> for_each_item(std::span<const GemmStep::Batch> dims, int64_t a, int64_t b, int64_t c, F&& f) {
  if (dims.empty()) return f(a, b, c);
  for (int64_t i = 0; i < dims[0].size; ++i)
    TRY(for_each_item(dims.subspan(1), a + i * dims[0].a, b + i * dims[0].b, c + i * dims[0].c, f));
  return {};
}

// What the plain loop sums in: integers modulo 2^64, whatever their sign.
template <class E>
using Sum = std::conditional_t<E::kIsInteger, uint64_t, typename E::Wide>;

// `count` sums to result elements `step` apart.
using StoreSums = void (*)(const void* sums, void* to, int64_t step, int64_t count);
template <class C>
void store_sums(const void* sums, void* to, int64_t step, int64_t count) {
  const auto* from = static_cast<const Sum<C>*>(sums);
  auto* c = static_cast<typename C::Storage*>(to);
  for (int64_t j = 0; j < count; ++j) c[j * step] = C::store(typename C::Wide(from[j]));
}

// Rows begin .. end of one product of matrices whose first elements are a and b; `c` is the result's.
using PlainRows = void (*)(const GemmStep& g, const void* a, const void* b, std::byte* c, int64_t c_size,
                           StoreSums store, int64_t begin, int64_t end);
template <class A>
void plain_rows(const GemmStep& g, const void* a, const void* b, std::byte* c, int64_t c_size, StoreSums store,
                int64_t begin, int64_t end) {
  using W = Sum<A>;
  constexpr int64_t kColumns = 64;
  W sums[kColumns];
  for (int64_t i = begin; i < end; ++i) {
    const auto* x = static_cast<const typename A::Storage*>(a) + i * g.a.row_stride;
    for (int64_t j = 0; j < g.n; ++j) {
      const auto* y = static_cast<const typename A::Storage*>(b) + j * g.b.col_stride;
      W sum{};
      for (int64_t k = 0; k < g.k; ++k) {
        const auto l = A::load(x[k * g.a.col_stride]), r = A::load(y[k * g.b.row_stride]);
        if constexpr (A::kIsBoolean) {
          sum = sum || (l && r);
        } else {
          sum += W(l) * W(r);
        }
      }
      sums[j % kColumns] = sum;
      const int64_t done = j % kColumns + 1;
      if (done == kColumns || j + 1 == g.n)
        store(sums, c + (i * g.c.row_stride + (j + 1 - done) * g.c.col_stride) * c_size, g.c.col_stride, done);
    }
  }
}

// Of one class: complex, floating, boolean or integer.
bool can_multiply(Dtype a, Dtype c) {
  return is_complex(a) == is_complex(c) && is_floating(a) == is_floating(c) &&
         (a == Dtype::boolean) == (c == Dtype::boolean);
}

Result<void> plain(const GemmStep& g, std::span<const TensorView> in, const TensorView& out) {
  if (!can_multiply(in[0].dtype, out.dtype)) {
    return fail(
        Code::unsupported,
        std::string("no multiply of ").append(row(in[0].dtype).name).append(" gives ").append(row(out.dtype).name));
  }
  const PlainRows rows = dispatch_element(in[0].dtype, [](auto e) -> PlainRows { return plain_rows<decltype(e)>; });
  const StoreSums store = dispatch_element(out.dtype, [](auto e) -> StoreSums { return store_sums<decltype(e)>; });
  const int64_t a_size = bytes(in[0].dtype), c_size = bytes(out.dtype);
  return for_each_item(g.batch, g.a.offset, g.b.offset, g.c.offset, [&](int64_t a, int64_t b, int64_t c) {
    const auto *x = in[0].as<std::byte>() + a * a_size, *y = in[1].as<std::byte>() + b * a_size;
    std::byte* const z = out.as<std::byte>() + c * c_size;
    const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, g.n * g.k));
    parallel_for(g.m, grain, [&](int64_t begin, int64_t end) { rows(g, x, y, z, c_size, store, begin, end); });
    return Result<void>();
  });
}

// Where columns of b are dense, and not very few, by rows of the result; else element by element.
bool is_by_rows(const GemmStep& g) { return g.b.col_stride == 1 && g.n > tuned::kDotColumns; }

int64_t item_count(const GemmStep& g) {
  int64_t count = 1;
  for (const GemmStep::Batch& d : g.batch) count *= d.size;
  return count;
}

// `out` has no data where an epilogue stores.
bool is_small(const GemmStep& g, std::span<const TensorView> in, const TensorView& out) {
  if (in[0].dtype != Dtype::f32 || in[1].dtype != Dtype::f32 || (out.data && out.dtype != Dtype::f32)) return false;
  if (g.n > tuned::kSmallColumns || item_count(g) == 1) return false;
  if (g.m * g.n > tuned::kSmallTile) return false;
  return is_by_rows(g) ? g.m * g.k <= tuned::kSmallLeft : g.m * g.n * g.k <= tuned::kSmallProducts;
}

using Sums = SmallSums;

// `kAtOnce` columns side by side: each sum waits for itself alone.
template <int kAtOnce>
int64_t small_columns(const GemmStep& g, const float* x, const float* b, float* c, int64_t step, int64_t j) {
  for (; j + kAtOnce <= g.n; j += kAtOnce) {
    const float* y = b + j * g.b.col_stride;
    float sums[kAtOnce] = {};
    for (int64_t k = 0; k < g.k; ++k)
      for (int q = 0; q < kAtOnce; ++q) sums[q] += x[k * g.a.col_stride] * y[k * g.b.row_stride + q * g.b.col_stride];
    for (int q = 0; q < kAtOnce; ++q) c[(j + q) * step] = sums[q];
  }
  return j;
}
// Where both sides lie along the depth: four sums of each of four columns, added in a fixed order.
int64_t small_lines(const GemmStep& g, const float* x, const float* b, float* c, int64_t step) {
  using Four = float __attribute__((vector_size(16)));
  const auto load = [](const float* from) {
    Four out;
    std::memcpy(&out, from, sizeof(out));
    return out;
  };
  int64_t j = 0;
  for (; j + 4 <= g.n; j += 4) {
    const float *y = b + j * g.b.col_stride, *z = y + 2 * g.b.col_stride;
    Four sums[4] = {};
    int64_t k = 0;
    for (; k + 4 <= g.k; k += 4) {
      const Four left = load(x + k);
      sums[0] += left * load(y + k);
      sums[1] += left * load(y + g.b.col_stride + k);
      sums[2] += left * load(z + k);
      sums[3] += left * load(z + g.b.col_stride + k);
    }
    for (int q = 0; q < 4; ++q) {
      float sum = (sums[q][0] + sums[q][2]) + (sums[q][1] + sums[q][3]);
      for (int64_t rest = k; rest < g.k; ++rest) sum += x[rest] * y[q * g.b.col_stride + rest];
      c[(j + q) * step] = sum;
    }
  }
  return j;
}
void small_dots(const GemmStep& g, const float* a, const float* b, const Sums& c) {
  const bool is_along = g.a.col_stride == 1 && g.b.row_stride == 1 && g.k >= 4;
  for (int64_t i = 0; i < g.m; ++i) {
    const float* x = a + i * g.a.row_stride;
    float* to = c.data + i * c.row_stride;
    const int64_t along = is_along ? small_lines(g, x, b, to, c.col_stride) : 0;
    const int64_t j = small_columns<8>(g, x, b, to, c.col_stride, along);
    small_columns<1>(g, x, b, to, c.col_stride, small_columns<4>(g, x, b, to, c.col_stride, j));
  }
}
void small_rows(const GemmStep& g, const float* a, const float* b, const Sums& c) {
  float sums[tuned::kSmallColumns];
  for (int64_t i = 0; i < g.m; ++i) {
    std::fill_n(sums, g.n, 0.0f);
    for (int64_t k = 0; k < g.k; ++k) {
      const float x = a[i * g.a.row_stride + k * g.a.col_stride];
      const float* row = b + k * g.b.row_stride;
      for (int64_t j = 0; j < g.n; ++j) sums[j] += x * row[j];
    }
    for (int64_t j = 0; j < g.n; ++j) c.data[i * c.row_stride + j * c.col_stride] = sums[j];
  }
}

// So few columns and so little depth that both are written out.
template <int kN, int kK>
void tiny_dots(const GemmStep& g, const float* a, const float* b, const Sums& c) {
  float right[kK][kN];
  for (int k = 0; k < kK; ++k)
    for (int q = 0; q < kN; ++q) right[k][q] = b[k * g.b.row_stride + q * g.b.col_stride];
  for (int64_t i = 0; i < g.m; ++i) {
    const float* x = a + i * g.a.row_stride;
    float sums[kN] = {};
    for (int k = 0; k < kK; ++k)
      for (int q = 0; q < kN; ++q) sums[q] += x[k * g.a.col_stride] * right[k][q];
    for (int q = 0; q < kN; ++q) c.data[i * c.row_stride + q * c.col_stride] = sums[q];
  }
}

SmallProduct vector_product([[maybe_unused]] const GemmStep& g) {
#if defined(__x86_64__)
  if (simd_best() == Simd::avx2) {
    if (g.b.col_stride == 1 && (g.n > 1 || g.b.row_stride != 1)) return small_rows_avx2(g);
    if (g.a.col_stride == 1 && g.b.row_stride == 1) return small_lines_avx2(g);
  }
#endif
  return nullptr;
}
SmallProduct small_product(const GemmStep& g) {
  if (SmallProduct found = vector_product(g)) return found;
  constexpr SmallProduct kTiny[3][3] = {{tiny_dots<2, 2>, tiny_dots<2, 3>, tiny_dots<2, 4>},
                                        {tiny_dots<3, 2>, tiny_dots<3, 3>, tiny_dots<3, 4>},
                                        {tiny_dots<4, 2>, tiny_dots<4, 3>, tiny_dots<4, 4>}};
  if (g.n >= 2 && g.n <= 4 && g.k >= 2 && g.k <= 4) return kTiny[g.n - 2][g.k - 2];
  return is_by_rows(g) ? small_rows : small_dots;
}

// A column is the row of the transposed product: its sums lie side by side.
GemmStep transposed(const GemmStep& g) {
  GemmStep t{.m = g.n, .n = g.m, .k = g.k};
  t.a.row_stride = g.b.col_stride, t.a.col_stride = g.b.row_stride;
  t.b.row_stride = g.a.col_stride, t.b.col_stride = g.a.row_stride;
  return t;
}

struct Item {
  int64_t a = 0, b = 0, c = 0;  // offsets in elements
};
Item item_of(const GemmStep& g, int64_t number) {
  Item out{g.a.offset, g.b.offset, g.c.offset};
  for (size_t d = g.batch.size(); d-- > 0;) {
    const GemmStep::Batch& dim = g.batch[d];
    const int64_t index = d == 0 ? number : number % dim.size;
    number = d == 0 ? 0 : number / dim.size;
    out.a += index * dim.a, out.b += index * dim.b, out.c += index * dim.c;
  }
  return out;
}

// With an epilogue, which is called for as many items as a tile of sums holds.
void small_items(const GemmStep& g, std::span<const TensorView> in, const TensorView& out, const Epilogue& epilogue) {
  const bool is_column = g.n == 1 && g.m > 1;
  const GemmStep row_form = is_column ? transposed(g) : GemmStep{};
  const SmallProduct one = small_product(is_column ? row_form : g);
  const int64_t each = g.m * g.n, products = each * std::max<int64_t>(g.k, 1);
  const GemmStep::Batch apart = g.batch.size() == 1 ? g.batch[0] : GemmStep::Batch{};
  const auto store = [&](int64_t number, float* tile) {
    const Item item = g.batch.size() == 1 ? Item{g.a.offset + number * apart.a, g.b.offset + number * apart.b,
                                                 g.c.offset + number * apart.c}
                                          : item_of(g, number);
    const Sums result = tile ? Sums{tile, g.n} : Sums{out.as<float>() + item.c, g.c.row_stride, g.c.col_stride};
    const float *a = in[0].as<float>() + item.a, *b = in[1].as<float>() + item.b;
    if (is_column) return one(row_form, b, a, {result.data, 0, result.row_stride});
    one(g, a, b, result);
  };
  parallel_for(item_count(g), std::max<int64_t>(1, (1 << 16) / products), [&](int64_t begin, int64_t end) {
    if (!epilogue.run)
      for (; begin < end; ++begin) store(begin, nullptr);
    float tile[tuned::kSmallTile];
    for (const int64_t most = tuned::kSmallTile / each; begin < end; begin += most) {
      const int64_t count = std::min(most, end - begin);
      for (int64_t i = 0; i < count; ++i) store(begin + i, tile + i * each);
      epilogue.run(epilogue.ctx, tile, begin * g.m, count * g.m, 0, g.n, g.n);
      for (int64_t i = 0; out.data && i < count; ++i)
        for (int64_t r = 0; r < g.m; ++r)
          for (int64_t c = 0; c < g.n; ++c)
            out.as<float>()[item_of(g, begin + i).c + r * g.c.row_stride + c * g.c.col_stride] =
                tile[i * each + r * g.n + c];
    }
  });
}

// For all items: its packed form serves every one.
bool has_one_b(const GemmStep::Batch& inner) { return inner.b == 0 || inner.size == 1; }

Result<void> packed(const GemmStep& g, std::span<const TensorView> in, const TensorView& out, PackedForms* packed_forms,
                    const Epilogue& epilogue) {
  GemmStep::Batch inner;
  std::span<const GemmStep::Batch> outer = g.batch;
  if (!outer.empty()) {
    inner = outer.back();
    outer = outer.first(outer.size() - 1);
  }
  int64_t row_base = 0;
  return for_each_item(outer, g.a.offset, g.b.offset, g.c.offset, [&](int64_t a, int64_t b, int64_t c) {
    auto from = [](const TensorView& v, int64_t element) { return v.as<std::byte>() + element * bytes(v.dtype); };
    Gemm call{.m = g.m, .n = g.n, .k = g.k, .batch = inner.size};
    call.a = {from(in[0], a), in[0].dtype, g.a.row_stride, g.a.col_stride, inner.a};
    call.b = {from(in[1], b), in[1].dtype, g.b.row_stride, g.b.col_stride, inner.b};
    call.c = {out.data ? from(out, c) : nullptr, out.dtype, g.c.row_stride, g.c.col_stride, inner.c};
    call.epilogue = epilogue;
    call.row_base = row_base;
    row_base += g.m * inner.size;
    std::shared_ptr<const PackedMatrix> form;
    if (packed_forms && has_one_b(inner)) form = packed_forms->packed(call.b, b, g.k, g.n);
    call.packed_b = form.get();
    return gemm(call);
  });
}

}  // namespace

Result<void> run_dot(const GemmStep& step, std::span<const TensorView> in, const TensorView& out,
                     PackedForms* packed_forms, const Epilogue& epilogue) {
  if (out.elements() == 0) return {};
  // Beside a weight the packed form is asked for first: its own bytes may be gone.
  const bool has_form = packed_forms && (step.batch.empty() || has_one_b(step.batch.back()));
  if (!has_form && is_small(step, in, out)) {
    small_items(step, in, out, epilogue);
    return {};
  }
  auto left = family_of(in[0].dtype), right = family_of(in[1].dtype);
  if (left && right && *left == *right && (!out.data || can_store(*left, out.dtype))) {
    return packed(step, in, out, packed_forms, epilogue);
  }
  if (epilogue.run) return fail(Code::internal, "an epilogue on a multiply that has none");
  return plain(step, in, out);
}

}  // namespace trine::host
