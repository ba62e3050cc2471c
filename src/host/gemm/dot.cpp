// Through the packed kernels where they know the dtypes; what they do not, by a plain loop over wide values.
#include "host/gemm/dot.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "base/pool.h"
#include "host/gemm/gemm.h"
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

bool is_small(const GemmStep& g, std::span<const TensorView> in, const TensorView& out) {
  for (const TensorView* v : {&in[0], &in[1], &out})
    if (v->dtype != Dtype::f32) return false;
  if (!out.data || g.n > tuned::kSmallColumns || item_count(g) == 1) return false;
  return is_by_rows(g) ? g.m * g.k <= tuned::kSmallLeft : g.m * g.n * g.k <= tuned::kSmallProducts;
}

void small_dots(const GemmStep& g, const float* a, const float* b, float* c) {
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      const float *x = a + i * g.a.row_stride, *y = b + j * g.b.col_stride;
      float sum = 0;
      for (int64_t k = 0; k < g.k; ++k) sum += x[k * g.a.col_stride] * y[k * g.b.row_stride];
      c[i * g.c.row_stride + j * g.c.col_stride] = sum;
    }
}
void small_rows(const GemmStep& g, const float* a, const float* b, float* c) {
  float sums[tuned::kSmallColumns];
  for (int64_t i = 0; i < g.m; ++i) {
    std::fill_n(sums, g.n, 0.0f);
    for (int64_t k = 0; k < g.k; ++k) {
      const float x = a[i * g.a.row_stride + k * g.a.col_stride];
      const float* row = b + k * g.b.row_stride;
      for (int64_t j = 0; j < g.n; ++j) sums[j] += x * row[j];
    }
    for (int64_t j = 0; j < g.n; ++j) c[i * g.c.row_stride + j * g.c.col_stride] = sums[j];
  }
}

void small_items(const GemmStep& g, std::span<const TensorView> in, const TensorView& out) {
  const auto one = is_by_rows(g) ? small_rows : small_dots;
  const int64_t products = g.m * g.n * std::max<int64_t>(g.k, 1);
  parallel_for(item_count(g), std::max<int64_t>(1, (1 << 16) / products), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      int64_t a = g.a.offset, b = g.b.offset, c = g.c.offset, rest = item;
      for (size_t d = g.batch.size(); d-- > 0;) {
        const GemmStep::Batch& dim = g.batch[d];
        const int64_t index = d == 0 ? rest : rest % dim.size;
        rest = d == 0 ? 0 : rest / dim.size;
        a += index * dim.a, b += index * dim.b, c += index * dim.c;
      }
      one(g, in[0].as<float>() + a, in[1].as<float>() + b, out.as<float>() + c);
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
  if (!epilogue.run && !has_form && is_small(step, in, out)) {
    small_items(step, in, out);
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
