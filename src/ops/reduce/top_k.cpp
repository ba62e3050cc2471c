// top_k: the k largest elements along the last dim in descending order, and their s32 indices; the earlier of equals
// first. Floats are in total order: NaN above inf, -0 below 0, negative NaN lowest. C1: 0 <= k <= the last dim.
#include <algorithm>
#include <numeric>

#include "base/pool.h"
#include "ops/reduce/sort_order.h"
#include "ops/shape.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  const int64_t k = call.attrs.integer("k", -1);
  if (x.rank() == 0 || k < 0 || k > x.dims.back())
    return fail(Code::invalid, cat("k is ", k, "; it must be at most the last dim"));
  if (is_complex(x.dtype)) return fail(Code::invalid, "complex numbers have no order");
  Dims dims = x.dims;
  dims.back() = k;
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, dims), ir::tensor_type(Dtype::s32, dims)};
}

// Order and index in one number: the largest element is the smallest number, and the earlier of equals.
uint64_t packed(uint32_t order, int64_t index) { return uint64_t(~order) << 32 | uint64_t(index); }

// Of a float with the sign first, at the top of a word: two's complement turns its order into that of integers.
uint32_t float_order(uint32_t bits) { return bits & 0x80000000 ? ~bits : bits | 0x80000000; }

// What to do with elements of up to four bytes; null where their order is not as simple.
using Pack = void (*)(const std::byte* line, int64_t n, uint64_t* to);
template <class Stored, auto kOrder>
void pack(const std::byte* line, int64_t n, uint64_t* to) {
  const auto* x = reinterpret_cast<const Stored*>(line);
  for (int64_t i = 0; i < n; ++i) to[i] = packed(kOrder(x[i]), i);
}
Pack pack_for(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return pack<uint32_t, [](uint32_t x) { return float_order(x); }>;
    case Dtype::bf16:
    case Dtype::f16:
      return pack<uint16_t, [](uint16_t x) { return float_order(uint32_t(x) << 16); }>;
    case Dtype::s32:
      return pack<uint32_t, [](uint32_t x) { return x ^ 0x80000000; }>;
    case Dtype::u32:
      return pack<uint32_t, [](uint32_t x) { return x; }>;
    default:
      return nullptr;
  }
}

// The k smallest of x in order, in `best`. Those below the k-th found so far are gathered, and now and then cut to k.
void smallest(const std::vector<uint64_t>& x, size_t k, std::vector<uint64_t>& best) {
  const size_t room = 2 * k + 64;
  uint64_t bound = UINT64_MAX;
  best.clear();
  for (uint64_t v : x) {
    if (v >= bound) continue;
    best.push_back(v);
    if (best.size() < room) continue;
    std::nth_element(best.begin(), best.begin() + ptrdiff_t(k - 1), best.end());
    best.resize(k);
    bound = best[k - 1];
  }
  std::partial_sort(best.begin(), best.begin() + ptrdiff_t(k), best.end());
}

void eval_packed(const Eval& e, Pack pack) {
  const int64_t n = e.in[0].dims.back(), k = e.out[0].dims.back(), lines = e.in[0].elements() / n;
  const auto bytes = int64_t(trine::bytes(e.in[0].dtype));
  constexpr int64_t kGrain = 1 << 14;  // elements of a part of the work
  parallel_for(lines, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> all(static_cast<size_t>(n)), best;
    for (int64_t line = begin; line < end; ++line) {
      pack(e.in[0].as<std::byte>() + line * n * bytes, n, all.data());
      smallest(all, size_t(k), best);
      for (int64_t i = 0; i < k; ++i) {
        const auto index = int64_t(best[size_t(i)] & UINT32_MAX);
        copy_element(e.out[0], line * k + i, e.in[0], line * n + index);
        e.out[1].as<int32_t>()[line * k + i] = int32_t(index);
      }
    }
  });
}

Result<void> eval(const Eval& e) {
  const int64_t n = e.in[0].dims.back(), k = e.out[0].dims.back();
  if (e.out[0].elements() == 0) return {};
  if (const Pack pack = pack_for(e.in[0].dtype); pack && n <= INT32_MAX) {
    eval_packed(e, pack);
    return {};
  }
  const std::vector<uint64_t> keys = sort_keys({.is_descending = true, .is_total = true}, e.in[0]);
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t line = 0; line < e.in[0].elements() / n; ++line) {
    std::iota(order.begin(), order.end(), line * n);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
      const uint64_t x = keys[size_t(a)], y = keys[size_t(b)];
      return x != y ? x < y : a < b;
    });
    for (int64_t i = 0; i < k; ++i) {
      copy_element(e.out[0], line * k + i, e.in[0], order[size_t(i)]);
      e.out[1].as<int32_t>()[line * k + i] = int32_t(order[size_t(i)] - line * n);
    }
  }
  return {};
}

}  // namespace

extern const Op op_top_k{.name = "top_k",
                         .kind = OpKind::other,
                         .arity = 1,
                         .attrs = "k",
                         .infer = infer,
                         .eval = eval,
                         .cut = {.whole_last = 1}};

}  // namespace trine::ops
