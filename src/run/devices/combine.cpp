// Sums over few buffers that stay in L1; see combine.h.
#include "run/devices/combine.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/number/element.h"

namespace trine::run {

namespace {

constexpr std::string_view kFolds[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"};
static_assert(std::size(kFolds) == size_t(Fold::count));

template <class T>
T fold(Fold how, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (how) {
      case Fold::multiply:
      case Fold::minimum:
      case Fold::logical_and:
        return a && b;
      case Fold::logical_xor:
        return a != b;
      default:
        return a || b;
    }
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (how) {
      case Fold::multiply:
        return T(U(a) * U(b));
      case Fold::maximum:
        return std::max(a, b);
      case Fold::minimum:
        return std::min(a, b);
      case Fold::logical_and:
        return a & b;
      case Fold::logical_or:
        return a | b;
      case Fold::logical_xor:
        return a ^ b;
      default:
        return T(U(a) + U(b));
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    switch (how) {
      case Fold::multiply:
        return a * b;
      case Fold::maximum:
        return a > b || a != a ? a : b;
      case Fold::minimum:
        return a < b || a != a ? a : b;
      default:
        return a + b;
    }
  } else {
    return how == Fold::multiply ? a * b : a + b;
  }
}

template <class T>
T scaled(T value, double by) {
  if constexpr (std::is_same_v<T, bool>)
    return value && by != 0;
  else if constexpr (std::is_arithmetic_v<T>)
    return T(double(value) * by);
  else
    return value * by;
}

template <class T>
T divided(T value, int64_t by) {
  if constexpr (std::is_same_v<T, bool>)
    return value;
  else if constexpr (std::is_integral_v<T>)
    return T(value / T(by));
  else if constexpr (std::is_floating_point_v<T>)
    return value / T(by);
  else
    return value / double(by);
}

// Combines elements of the members' inputs by the sums of one piece.
template <class E>
class Summer {
 public:
  using Stored = typename E::Storage;
  // f32 stays f32 (as the chip adds), narrower floats widen to it; all else is exact or f64.
  using Wide = std::conditional_t<E::kIsFloating && E::kDtype != Dtype::f64, float, typename E::Wide>;

  Summer(const Combine& what, std::span<const std::byte* const> inputs, const SumOrder& order)
      : what_(what),
        inputs_(inputs),
        chunk_(std::max<int64_t>(kSumElements / order.buffers, 64)),
        wide_(std::make_unique_for_overwrite<Wide[]>(size_t(chunk_ * order.buffers))),
        stored_(std::make_unique_for_overwrite<Stored[]>(size_t(chunk_))) {}

  int64_t chunk() const { return chunk_; }

  // Results of elements [begin, begin + count), count at most a chunk.
  const std::byte* run(const SumOrder::Piece& piece, int64_t begin, int64_t count) {
    for (const SumOrder::Sum& sum : piece.sums) add(sum, begin, count);
    const bool is_as_it_is = piece.result >= 0 && what_.scale == 1 && what_.divisor == 1;
    if (is_as_it_is) return reinterpret_cast<const std::byte*>(from(piece.result) + begin);
    with(piece.result, begin, [&](auto value) {
      if (what_.divisor == 1)
        for (int64_t k = 0; k < count; ++k) stored_[size_t(k)] = E::store(typename E::Wide(value(k)));
      else
        for (int64_t k = 0; k < count; ++k)
          stored_[size_t(k)] = E::store(typename E::Wide(divided(Wide(value(k)), what_.divisor)));
    });
    return reinterpret_cast<const std::byte*>(stored_.get());
  }

 private:
  const Stored* from(int32_t member) const { return reinterpret_cast<const Stored*>(inputs_[size_t(member)]); }
  Wide* buffer(int32_t term) { return wide_.get() + ~term * chunk_; }

  // The first two terms in one pass, then the others onto it; the sum may lie over either of the two.
  void add(const SumOrder::Sum& sum, int64_t begin, int64_t count) {
    Wide* const to = wide_.get() + sum.to * chunk_;
    with(sum.terms[0], begin, [&](auto a) { with(sum.terms[1], begin, [&](auto b) { both(to, count, a, b); }); });
    for (size_t t = 2; t < sum.terms.size(); ++t)
      with(sum.terms[t], begin, [&](auto b) { both(to, count, [to](int64_t k) { return to[k]; }, b); });
  }

  template <class A, class B>
  void both(Wide* to, int64_t count, A a, B b) const {
    const Fold how = what_.how;
    if (how == Fold::add)
      for (int64_t k = 0; k < count; ++k) to[k] = fold(Fold::add, Wide(a(k)), Wide(b(k)));
    else
      for (int64_t k = 0; k < count; ++k) to[k] = fold(how, Wide(a(k)), Wide(b(k)));
  }

  // `body` with a function from an element's index to its value.
  template <class Body>
  void with(int32_t term, int64_t begin, Body body) {
    if (term < 0) return body([at = buffer(term)](int64_t k) { return at[k]; });
    const Stored* const at = from(term) + begin;
    if (what_.scale == 1) return body([at](int64_t k) { return Wide(E::load(at[k])); });
    body([at, by = what_.scale](int64_t k) { return scaled(Wide(E::load(at[k])), by); });
  }

  const Combine what_;
  std::span<const std::byte* const> inputs_;
  const int64_t chunk_;
  std::unique_ptr<Wide[]> wide_;
  std::unique_ptr<Stored[]> stored_;
};

}  // namespace

std::string_view name(Fold how) { return kFolds[size_t(how)]; }

std::optional<Fold> fold_by_name(std::string_view name) {
  const auto known = std::find(std::begin(kFolds), std::end(kFolds), name);
  if (known == std::end(kFolds)) return {};
  return Fold(known - std::begin(kFolds));
}

bool can_fold(Fold how, Dtype dtype) {
  const DtypeKind kind = kDtypes[size_t(dtype)].kind;
  if (how == Fold::add || how == Fold::multiply) return true;
  if (how == Fold::maximum || how == Fold::minimum) return kind != DtypeKind::complex;
  return kind != DtypeKind::complex && kind != DtypeKind::floating;
}

Run run_at(int64_t element, int64_t elements, int64_t parts) {
  const int64_t piece = element * parts / elements;
  return {piece, ((piece + 1) * elements + parts - 1) / parts - element};
}

void combine(Dtype dtype, const Combine& what, std::span<const std::byte* const> inputs, const SumOrder& order,
             Elements elements, const WhereIs& where, const Put& put) {
  dispatch_element(dtype, [&](auto element) {
    Summer<decltype(element)> summer(what, inputs, order);
    for (int64_t at = elements.begin; at < elements.end;) {
      const Run run = where(at);
      const int64_t count = std::min({run.count, elements.end - at, summer.chunk()});
      put(at, summer.run(order.pieces[size_t(run.piece)], at, count), count);
      at += count;
    }
    return 0;
  });
}

}  // namespace trine::run
