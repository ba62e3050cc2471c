// Memory that does not lie side by side: the interpreter's loads and stores with a stride, and picks.
// Elements go through a row of them, which L, the loops of kernels.h, widens or narrows.
#pragma once

#include "base/number/number.h"
#include "host/loops/ops.h"

namespace trine::host {

template <class L>
struct StridedLoops {
  static constexpr int64_t kPart = 256;

  template <class S>
  static void load(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    auto* from = static_cast<const S*>(a);
    if (is_lane(aux.dtype)) return apart(static_cast<S*>(d), from, n, aux.stride);
    in_parts<S>(d, n, aux, [&](S* side, int64_t i, int64_t m) { apart(side, from + i * aux.stride, m, aux.stride); });
  }
  // Indices may lie where the result goes: a part of them is read before it is written.
  template <class S>
  static void pick(void* d, const void* a, const void* b, const void*, int64_t n, const LoopAux& aux) {
    auto* index = static_cast<const int32_t*>(a);
    auto* from = static_cast<const S*>(b);
    if (is_lane(aux.dtype)) {
      auto* to = static_cast<S*>(d);
      for (int64_t i = 0; i < n; ++i) to[i] = from[held(index[i], aux) + i * aux.stride];
      return;
    }
    in_parts<S>(d, n, aux, [&](S* side, int64_t i, int64_t m) {
      for (int64_t j = 0; j < m; ++j) side[j] = from[held(index[i + j], aux) + (i + j) * aux.stride];
    });
  }
  template <class S>
  static void store(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    auto* to = static_cast<S*>(d);
    const int lane = lane_bytes(aux.dtype);
    LoopFn unit = L::store_unit(aux.dtype);
    S side[kPart];
    for (int64_t i = 0; i < n; i += kPart) {
      int64_t m = n - i < kPart ? n - i : kPart;
      unit(side, static_cast<const std::byte*>(a) + i * lane, nullptr, nullptr, m, aux);
      for (int64_t j = 0; j < m; ++j) to[(i + j) * aux.stride] = side[j];
    }
  }

  static LoopFn find_load(Dtype dtype) {
    return with_stored(dtype, [](auto zero) -> LoopFn { return load<decltype(zero)>; });
  }
  static LoopFn find_pick(Dtype dtype) {
    return with_stored(dtype, [](auto zero) -> LoopFn { return pick<decltype(zero)>; });
  }
  static LoopFn find_store(Dtype dtype) {
    return with_stored(dtype, [](auto zero) -> LoopFn { return store<decltype(zero)>; });
  }

 private:
  static int lane_bytes(Dtype dtype) { return trine::bits(dtype) == 64 ? 8 : 4; }
  // In memory as in lanes.
  static bool is_lane(Dtype d) { return trine::bytes(d) == lane_bytes(d); }
  // Every other element comes by shuffles of vectors, which the compiler writes where it knows the stride.
  template <class S>
  static void apart(S* to, const S* from, int64_t n, int64_t stride) {
    if (stride == 2) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
      return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
  static int64_t held(int64_t index, const LoopAux& aux) { return index < 0 ? 0 : index > aux.most ? aux.most : index; }

  template <class S, class F>
  static void in_parts(void* d, int64_t n, const LoopAux& aux, F fill) {
    const int lane = lane_bytes(aux.dtype);
    LoopFn unit = L::load_unit(aux.dtype);
    S side[kPart];
    for (int64_t i = 0; i < n; i += kPart) {
      int64_t m = n - i < kPart ? n - i : kPart;
      fill(side, i, m);
      unit(static_cast<std::byte*>(d) + i * lane, side, nullptr, nullptr, m, aux);
    }
  }

  template <class F>
  static LoopFn with_stored(Dtype dtype, F f) {
    switch (trine::bytes(dtype)) {
      case 1:
        return f(uint8_t{});
      case 2:
        return f(uint16_t{});
      case 4:
        return f(uint32_t{});
      default:
        return f(uint64_t{});
    }
  }
};

}  // namespace trine::host
