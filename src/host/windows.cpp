// Gathers share windows out; scatters share out the columns of a window, or ranges of the operand.
#include "host/windows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/number/convert.h"
#include "base/number/element.h"
#include "base/pool.h"
#include "host/thresholds.h"
#include "host/windows_kernels.h"

namespace trine::host {

using arch::WindowKind;

namespace {

namespace tuned = thresholds::windows;

// A dense row of narrow floats, combined in f32.
template <class E, class F>
void combine_narrow(typename E::Storage* to, const typename E::Storage* from, int64_t count) {
#if defined(__x86_64__)
  if constexpr (E::kDtype == Dtype::bf16) {
    static const CombineBf16 fast = has_avx512_bf16() ? combine_bf16_avx512(F::kKind) : nullptr;
    if (fast) return fast(to, from, count);
  }
#endif
  constexpr int64_t kChunk = 512;
  const RowKernels& rows = row_kernels(E::kDtype, simd_best());
  float a[kChunk], b[kChunk];
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t n = std::min(kChunk, count - i);
    rows.widen(to + i, a, size_t(n));
    rows.widen(from + i, b, size_t(n));
    for (int64_t j = 0; j < n; ++j) a[j] = F{}(a[j], b[j]);
    rows.round(a, to + i, size_t(n), nullptr);
  }
}

// One row of a combination: T at its own width where the machine computes in it, else as the dtype's element.
template <class E, class F>
void combine_row(std::byte* to, const std::byte* from, const MoveLoop& loop) {
  using S = typename E::Storage;
  constexpr bool kNative = E::kDtype == Dtype::f32 || E::kDtype == Dtype::f64 || (E::kIsInteger && E::kBits >= 8);
  auto one = [](S a, S b) -> S {
    if constexpr (kNative) {
      return S(F{}(a, b));
    } else {
      return E::store(typename E::Wide(F{}(E::load(a), E::load(b))));
    }
  };
  if (loop.to == sizeof(S) && loop.from == sizeof(S)) {
    auto* d = reinterpret_cast<S*>(to);
    auto* s = reinterpret_cast<const S*>(from);
    if constexpr (E::kDtype == Dtype::bf16 || E::kDtype == Dtype::f16) return combine_narrow<E, F>(d, s, loop.count);
#if defined(__x86_64__)
    if constexpr (E::kDtype == Dtype::f32) {
      static const CombineF32 fast = simd_best() == Simd::avx2 ? combine_f32_avx2(F::kKind) : nullptr;
      if (fast) return fast(d, s, loop.count);
    }
#endif
    for (int64_t i = 0; i < loop.count; ++i) d[i] = one(d[i], s[i]);
    return;
  }
  for (int64_t i = 0; i < loop.count; ++i) {
    auto* d = reinterpret_cast<S*>(to + i * loop.to);
    *d = one(*d, *reinterpret_cast<const S*>(from + i * loop.from));
  }
}

// Integers wrap; of floats, NaN wins.
struct Sum {
  static constexpr WindowKind kKind = WindowKind::add;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {
      return T(uint64_t(a) + uint64_t(b));
    }
  }
};
struct Product {
  static constexpr WindowKind kKind = WindowKind::multiply;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      return T(uint64_t(a) * uint64_t(b));
    }
  }
};
struct Most {
  static constexpr WindowKind kKind = WindowKind::maximum;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == b) return std::signbit(a) ? b : a;  // -0 is below 0
    }
    return b > a || b != b ? b : a;
  }
};
struct Least {
  static constexpr WindowKind kKind = WindowKind::minimum;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == b) return std::signbit(a) ? a : b;  // -0 is below 0
    }
    return b < a || b != b ? b : a;
  }
};

using Combine = void (*)(std::byte*, const std::byte*, const MoveLoop&);

Combine combine_of(WindowKind kind, Dtype dtype) {
  return dispatch_element(dtype, [&](auto element) -> Combine {
    using E = decltype(element);
    if constexpr (E::kIsFloating || E::kIsInteger) {
      switch (kind) {
        case WindowKind::add:
          return combine_row<E, Sum>;
        case WindowKind::multiply:
          return combine_row<E, Product>;
        case WindowKind::maximum:
          return combine_row<E, Most>;
        case WindowKind::minimum:
          return combine_row<E, Least>;
        default:
          break;
      }
    }
    return nullptr;
  });
}

// Loops that go on evenly where the one inside them ends are one; the order of the windows stays.
std::vector<arch::WindowStep::Loop> merged(const std::vector<arch::WindowStep::Loop>& loops) {
  std::vector<arch::WindowStep::Loop> out;
  for (arch::WindowStep::Loop loop : loops) {
    if (loop.size == 1) continue;
    if (!out.empty() && out.back().many == loop.many * loop.size && out.back().operand == loop.operand * loop.size &&
        out.back().indices == loop.indices * loop.size) {
      loop.size *= out.back().size;
      out.pop_back();
    }
    out.push_back(loop);
  }
  return out;
}

// An index of a dtype that is not worth loops of its own; null where it is no integer.
using LoadIndex = int64_t (*)(const void* indices, int64_t at);
LoadIndex load_of(Dtype dtype) {
  return dispatch_element(dtype, [](auto element) -> LoadIndex {
    using E = decltype(element);
    if constexpr (E::kIsInteger) {
      return [](const void* indices, int64_t at) {
        // What is past all signed numbers is past every operand.
        const auto value = E::load(static_cast<const typename E::Storage*>(indices)[at]);
        return int64_t(std::min<typename E::Wide>(value, INT64_MAX));
      };
    } else {
      return nullptr;
    }
  });
}

// f(T()) for a T of as many bytes.
template <class F>
void with_unit(size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    case 8:
      return f(uint64_t());
    default:
      return f(std::array<uint64_t, 2>());
  }
}

}  // namespace

Windows::Windows(const arch::WindowStep& step, const arch::Slot& operand, const arch::Slot& indices,
                 std::shared_ptr<const Windows> updates)
    : step_(step),
      dtype_(operand.dtype),
      index_(indices.dtype),
      size_(size_t(bytes(operand.dtype))),
      bytes_(operand.bytes()),
      updates_(std::move(updates)) {
  const int64_t size = int64_t(size_);
  Dims dims, many, own;
  for (size_t d = 0; d < step.window.size(); ++d) {
    const arch::WindowStep::Side& side = step.window[d];
    dims.push_back(side.size);
    many.push_back(updates_ ? step.updates->window[d].operand : side.many);
    own.push_back(side.operand);
  }
  window_bytes_ = element_count(dims) * size;
  const bool gathers = step.kind == WindowKind::gather;
  loops_ = gathers ? move_loops(many, own, dims, size) : move_loops(own, many, dims, size);
  if (!gathers && step.kind != WindowKind::set) combine_ = combine_of(step.kind, operand.dtype);
  for (arch::WindowStep::Loop& loop : step_.windows) {
    count_ *= loop.size;
    loop.many *= size;
    loop.operand *= size;
  }
  step_.windows = merged(step_.windows);
  for (arch::WindowStep::Start& start : step_.starts) start.operand *= size;
  if (window_bytes_ == 0) count_ = 0;
}

// kStarts: indices of a window, 0 where that is seen only here.
template <size_t kStarts, class Index, class F>
void Windows::visit_by(const Index& index, int64_t begin, int64_t end, F&& f) const {
  const bool clamps = step_.kind == WindowKind::gather;
  const std::vector<arch::WindowStep::Loop>& loops = step_.windows;
  // Of its own, so that what f writes cannot be one of them.
  std::conditional_t<kStarts == 0, std::vector<arch::WindowStep::Start>, std::array<arch::WindowStep::Start, kStarts>>
      starts = {};
  if constexpr (kStarts == 0) starts.resize(step_.starts.size());
  std::copy_n(step_.starts.begin(), starts.size(), starts.begin());
  constexpr size_t kFewLoops = 4;
  std::array<int64_t, kFewLoops> few = {};
  std::vector<int64_t> many_counters(loops.size() > kFewLoops ? loops.size() : 0);
  const std::span<int64_t> counters =
      many_counters.empty() ? std::span(few).first(loops.size()) : std::span(many_counters);
  int64_t many = 0, base = 0, at = 0, rest = begin;
  for (size_t d = loops.size(); d-- > 0; rest /= loops[d].size) {
    const int64_t i = counters[d] = d == 0 ? rest : rest % loops[d].size;
    many += i * loops[d].many, base += i * loops[d].operand, at += i * loops[d].indices;
  }
  auto step = [&](const arch::WindowStep::Loop& loop, int64_t by) {
    many += by * loop.many, base += by * loop.operand, at += by * loop.indices;
  };
  const arch::WindowStep::Loop inner = loops.empty() ? arch::WindowStep::Loop{} : loops.back();
  for (int64_t w = begin; w < end;) {
    const int64_t left = loops.size() > 1 ? inner.size - counters.back() : end - w, run = std::min(left, end - w);
    for (int64_t i = 0; i < run; ++i) {
      bool fits = true;
      auto operand = uint64_t(base + i * inner.operand);  // of any value, also those that do not fit
      for (const arch::WindowStep::Start& start : starts) {
        int64_t value = index(at + i * inner.indices + start.indices);
        if (clamps) value = std::clamp<int64_t>(value, 0, start.most);
        fits &= uint64_t(value) <= uint64_t(start.most);
        operand += uint64_t(value) * uint64_t(start.operand);
      }
      if (fits) f(w + i, many + i * inner.many, int64_t(operand));
    }
    w += run;
    if (loops.empty()) continue;
    step(inner, run);
    counters.back() += run;
    for (size_t d = loops.size() - 1; d > 0 && counters[d] == loops[d].size; --d) {
      step(loops[d], -loops[d].size);
      counters[d] = 0;
      step(loops[d - 1], 1);
      ++counters[d - 1];
    }
  }
}

template <class F>
void Windows::visit(const void* indices, int64_t begin, int64_t end, F&& f) const {
  const auto has_room = [](const arch::WindowStep::Start& start) { return start.most >= 0; };
  if (begin == end || !std::ranges::all_of(step_.starts, has_room)) return;  // no iterations, or none that fits
  if (index_ == Dtype::s32) {
    auto* p = static_cast<const int32_t*>(indices);
    auto index = [p](int64_t i) -> int64_t { return p[i]; };
    if (step_.starts.size() == 1) return visit_by<1>(index, begin, end, f);
    if (step_.starts.size() == 2) return visit_by<2>(index, begin, end, f);
    return visit_by<0>(index, begin, end, f);
  }
  if (index_ == Dtype::s64) {
    auto* p = static_cast<const int64_t*>(indices);
    return visit_by<0>([p](int64_t i) { return p[i]; }, begin, end, f);
  }
  if (const LoadIndex load = load_of(index_))
    visit_by<0>([indices, load](int64_t i) { return load(indices, i); }, begin, end, f);
}

// Windows whose elements lie apart on both sides, with neighbours side by side in the result: a row of neighbours at a
// time.
bool Windows::gathers_across() const {
  const int64_t size = int64_t(size_);
  return loops_.size() == 1 && loops_[0].from != size && step_.windows.size() == 1 && step_.windows[0].many == size;
}
void Windows::gather_across(std::span<void* const> in, std::byte* out) const {
  const MoveLoop rows = loops_[0];
  const auto* operand = static_cast<const std::byte*>(in[0]);
  const int64_t row_bytes = std::max<int64_t>(1, count_ * int64_t(size_));
  parallel_for(rows.count, std::max<int64_t>(1, tuned::kSharedBytes / 4 / row_bytes), [&](int64_t begin, int64_t end) {
    with_unit(size_, [&]<class T>(T) {
      for (int64_t r = begin; r < end; ++r) {
        visit(in[1], 0, count_,
              [to = out + r * rows.to, from = operand + r * rows.from](int64_t, int64_t many, int64_t at) {
                std::memcpy(to + many, from + at, sizeof(T));
              });
      }
    });
  });
}

void Windows::gather(std::span<void* const> in, std::byte* out) const {
  const auto* operand = static_cast<const std::byte*>(in[0]);
  auto some = [&](int64_t begin, int64_t end) {
    if (!loops_.empty())
      return visit(in[1], begin, end,
                   [&](int64_t, int64_t many, int64_t at) { copy_loops(out + many, operand + at, loops_, size_); });
    with_unit(size_, [&]<class T>(T) {
      visit(in[1], begin, end,
            [out, operand](int64_t, int64_t many, int64_t at) { std::memcpy(out + many, operand + at, sizeof(T)); });
    });
  };
  if (gathers_across()) return gather_across(in, out);
  if (count_ * window_bytes_ < tuned::kSharedBytes) return some(0, count_);
  parallel_for(count_, std::max<int64_t>(1, tuned::kSharedBytes / 4 / window_bytes_), some);
}

// Windows of one element each; f combines two elements. By one thread: another would look at all indices again.
template <class S, class F>
void Windows::scatter_elements(std::span<void* const> in, std::byte* out, F f) const {
  const auto* updates = static_cast<const std::byte*>(in[2]);
  visit(in[1], 0, count_, [out, updates, f](int64_t, int64_t many, int64_t at) {
    S old, next;
    std::memcpy(&old, out + at, sizeof old);
    std::memcpy(&next, updates + many, sizeof next);
    old = f(old, next);
    std::memcpy(out + at, &old, sizeof old);
  });
}

// False where the way for windows of any size has to do.
bool Windows::scatter_each(std::span<void* const> in, std::byte* out) const {
  if (!loops_.empty() || updates_) return false;
  auto by_kind = [&]<class S>(S) {
    switch (step_.kind) {
      case WindowKind::add:
        return scatter_elements<S>(in, out, Sum{});
      case WindowKind::multiply:
        return scatter_elements<S>(in, out, Product{});
      case WindowKind::maximum:
        return scatter_elements<S>(in, out, Most{});
      default:
        return scatter_elements<S>(in, out, Least{});
    }
  };
  if (step_.kind == WindowKind::set) {
    with_unit(size_, [&]<class S>(S) { scatter_elements<S>(in, out, [](const S&, const S& b) { return b; }); });
    return true;
  }
  switch (dtype_) {
    case Dtype::f32:
      by_kind(float());
      return true;
    case Dtype::f64:
      by_kind(double());
      return true;
    case Dtype::s32:
      by_kind(int32_t());
      return true;
    default:
      return false;
  }
}

void Windows::combine(std::byte* to, const std::byte* from, std::span<const MoveLoop> loops) const {
  if (!combine_) return copy_loops(to, from, loops, size_);
  if (loops.size() <= 1) return combine_(to, from, loops.empty() ? MoveLoop{1, 0, 0} : loops[0]);
  for (int64_t i = 0; i < loops[0].count; ++i)
    combine(to + i * loops[0].to, from + i * loops[0].from, loops.subspan(1));
}

// Windows that are one row of f32 each, side by side: many of them in one call of a kernel. False where they are not.
bool Windows::scatter_rows(std::span<void* const> in, std::byte* out) const {
  const bool is_row = loops_.size() == 1 && loops_[0].to == 4 && loops_[0].from == 4;
  if (!is_row || updates_ || dtype_ != Dtype::f32 || simd_best() != Simd::avx2) return false;
  if (pool_threads() > 1 && count_ * window_bytes_ >= tuned::kSharedBytes) return false;
#if defined(__x86_64__)
  const CombineRowsF32 kernel = combine_rows_f32_avx2(step_.kind);
  if (!kernel) return false;
  const auto* updates = static_cast<const std::byte*>(in[2]);
  std::array<RowPair, 256> rows;
  size_t waiting = 0;
  auto flush = [&] { kernel(rows.data(), std::exchange(waiting, 0), loops_[0].count); };
  visit(in[1], 0, count_, [&](int64_t, int64_t many, int64_t at) {
    rows[waiting++] = {reinterpret_cast<float*>(out + at), reinterpret_cast<const float*>(updates + many)};
    if (waiting == rows.size()) flush();
  });
  flush();
  return true;
#else
  return false;
#endif
}

void Windows::scatter(std::span<void* const> in, std::byte* out) const {
  if (out != in[0]) copy_flat(out, static_cast<const std::byte*>(in[0]), int64_t(bytes_));
  if (scatter_each(in, out) || scatter_rows(in, out)) return;
  const auto* updates = static_cast<const std::byte*>(in[2]);
  std::vector<int64_t> offsets;  // of the updates, where a gather says
  if (updates_) updates_->visit(in[3], 0, count_, [&](int64_t, int64_t, int64_t at) { offsets.push_back(at); });
  auto from = [&](int64_t w, int64_t many) { return updates + (offsets.empty() ? many : offsets[size_t(w)]); };
  if (count_ * window_bytes_ < tuned::kSharedBytes) {
    return visit(in[1], 0, count_,
                 [&](int64_t w, int64_t many, int64_t at) { combine(out + at, from(w, many), loops_); });
  }
  const int64_t threads = pool_threads(), columns = loops_.empty() ? 1 : loops_.back().count;
  if (!step_.is_disjoint) {
    return parallel_for(
        columns, std::max(tuned::kColumnsMin, columns / (2 * threads)), [&](int64_t begin, int64_t end) {
          std::vector<MoveLoop> part = loops_;
          const int64_t to = part.empty() ? 0 : begin * part.back().to,
                        by = part.empty() ? 0 : begin * part.back().from;
          if (!part.empty()) part.back().count = end - begin;
          visit(in[1], 0, count_,
                [&](int64_t w, int64_t many, int64_t at) { combine(out + at + to, from(w, many) + by, part); });
        });
  }
  // Windows that begin elsewhere do not overlap: a part takes those that begin in its range of the operand.
  const int64_t parts = window_bytes_ < tuned::kLongWindow ? threads : 4 * threads, each = int64_t(bytes_) / parts + 1;
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    visit(in[1], 0, count_, [&](int64_t w, int64_t many, int64_t at) {
      if (at >= begin * each && at < end * each) combine(out + at, from(w, many), loops_);
    });
  });
}

std::optional<ShortMove> Windows::shortened(std::span<void* const> in, void* out) const {
  const bool is_set = step_.kind == WindowKind::set && !updates_ && in[0] == out;
  const bool is_one = count_ == 1 && step_.windows.empty() && step_.starts.size() == 1;
  if (!is_set || !is_one || (index_ != Dtype::s32 && index_ != Dtype::s64)) return std::nullopt;
  const int64_t size = int64_t(size_);
  if (loops_.size() > 1 || (loops_.size() == 1 && (loops_[0].to != size || loops_[0].from != size)))
    return std::nullopt;
  const arch::WindowStep::Start& start = step_.starts[0];
  if (window_bytes_ > thresholds::move::kShortBytes || start.most < 0 || start.most > INT32_MAX) return std::nullopt;
  return ShortMove{.index = static_cast<const std::byte*>(in[1]) + start.indices * bytes(index_),
                   .is_wide = index_ == Dtype::s64,
                   .drops = true,
                   .most = int32_t(start.most),
                   .stride = start.operand,
                   .to = static_cast<std::byte*>(out),
                   .from = static_cast<const std::byte*>(in[2]),
                   .bytes = window_bytes_};
}

void Windows::run(std::span<void* const> in, void* out) const {
  auto* to = static_cast<std::byte*>(out);
  if (step_.kind == WindowKind::gather) return gather(in, to);
  scatter(in, to);
}

}  // namespace trine::host
