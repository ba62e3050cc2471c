// Through the packed kernels where they know the dtypes; what they do not, by a plain loop over wide values.
#include "host/gemm/dot.h"

#include <algorithm>
#include <string>

#include "base/pool.h"
#include "host/gemm/gemm.h"

namespace trine::host {

using arch::GemmStep;

namespace {

// Calls f(item, offsets in elements) for every index of the batch dims but the last `inner`.
template <class F>
Result<void> for_each_item(std::span<const GemmStep::Batch> dims, int64_t a, int64_t b, int64_t c, F&& f) {
  if (dims.empty()) return f(a, b, c);
  for (int64_t i = 0; i < dims[0].size; ++i)
    TRY(for_each_item(dims.subspan(1), a + i * dims[0].a, b + i * dims[0].b, c + i * dims[0].c, f));
  return {};
}

template <class T>
T* at(const TensorView& v, int64_t element) {
  return v.as<T>() + element;
}

// Sums in the wide type of the result; integers wrap.
template <class A, class C>
void plain_rows(const GemmStep& g, const typename A::Storage* a, const typename A::Storage* b, typename C::Storage* c,
                int64_t begin, int64_t end) {
  using W = typename C::Wide;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      W sum{};
      const auto* x = a + i * g.a.row_stride;
      const auto* y = b + j * g.b.col_stride;
      for (int64_t k = 0; k < g.k; ++k) {
        const auto l = A::load(x[k * g.a.col_stride]), r = A::load(y[k * g.b.row_stride]);
        if constexpr (C::kIsInteger) {
          sum = W(uint64_t(sum) + uint64_t(W(l)) * uint64_t(W(r)));
        } else if constexpr (C::kIsBoolean) {
          sum = sum || (bool(l) && bool(r));
        } else {
          sum += W(l) * W(r);
        }
      }
      c[i * g.c.row_stride + j * g.c.col_stride] = C::store(sum);
    }
  }
}

template <class A, class C>
constexpr bool kCanMultiply =
    (A::kIsComplex == C::kIsComplex) && (A::kIsFloating == C::kIsFloating) && (A::kIsBoolean == C::kIsBoolean);

Result<void> plain(const GemmStep& g, std::span<const TensorView> in, const TensorView& out) {
  return dispatch_element(in[0].dtype, [&](auto left) -> Result<void> {
    using A = decltype(left);
    return dispatch_element(out.dtype, [&](auto result) -> Result<void> {
      using C = decltype(result);
      if constexpr (kCanMultiply<A, C>) {
        return for_each_item(g.batch, g.a.offset, g.b.offset, g.c.offset, [&](int64_t a, int64_t b, int64_t c) {
          const auto* x = at<const typename A::Storage>(in[0], a);
          const auto* y = at<const typename A::Storage>(in[1], b);
          auto* z = at<typename C::Storage>(out, c);
          const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, g.n * g.k));
          parallel_for(g.m, grain, [&](int64_t begin, int64_t end) { plain_rows<A, C>(g, x, y, z, begin, end); });
          return Result<void>();
        });
      } else {
        return fail(
            Code::unsupported,
            std::string("no multiply of ").append(row(A::kDtype).name).append(" gives ").append(row(C::kDtype).name));
      }
    });
  });
}

// Batches of few numbers each, where what packing costs would be most of it: up to where packing was faster on a grid
// of m, n and k from 1 to 128. By rows that is a matter of A's numbers, by dots of all products, never of how many
// items.
constexpr int64_t kSmallLeft = 128, kSmallProducts = 512, kSmallColumns = 64, kDotColumns = 4;

// Where columns of b are dense, and not very few, by rows of the result; else element by element.
bool is_by_rows(const GemmStep& g) { return g.b.col_stride == 1 && g.n > kDotColumns; }

int64_t item_count(const GemmStep& g) {
  int64_t count = 1;
  for (const GemmStep::Batch& d : g.batch) count *= d.size;
  return count;
}

bool is_small(const GemmStep& g, std::span<const TensorView> in, const TensorView& out) {
  for (const TensorView* v : {&in[0], &in[1], &out})
    if (v->dtype != Dtype::f32) return false;
  if (!out.data || g.n > kSmallColumns || item_count(g) == 1) return false;
  return is_by_rows(g) ? g.m * g.k <= kSmallLeft : g.m * g.n * g.k <= kSmallProducts;
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
  float sums[kSmallColumns];
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
