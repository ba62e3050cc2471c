// Names of number formats, rounding and widening of one value by its row, and the random words of stochastic rounding.
// The rows themselves are in number.h; these functions are compiled here once, not in every file that reads a row.
#include "base/number/number.h"

#include "base/number/random.h"
#include "base/result.h"

namespace trine {

uint32_t Rounding::next() { return random_at(seed, index++); }

namespace {

constexpr bool has_scalar(const DtypeRow& r) {
  return r.kind != DtypeKind::packed && r.kind != DtypeKind::complex && r.dtype != Dtype::f64;
}

template <Dtype D>
uint64_t round_one(float value, Rounding& rounding) {
  constexpr const DtypeRow& kRow = kDtypes[size_t(D)];
  constexpr uint64_t kMask = ~uint64_t{0} >> (64 - kRow.bits);
  if (kRow.kind == DtypeKind::floating && rounding.mode == RoundingMode::stochastic) {
    return Number<D>::round(value, rounding.next()) & kMask;
  }
  ++rounding.index;
  return uint64_t(Number<D>::round(value)) & kMask;
}

struct Scalar {
  uint64_t (*round)(float, Rounding&) = nullptr;
  float (*widen)(uint64_t) = nullptr;
};

template <size_t I>
constexpr Scalar scalar_of() {
  if constexpr (has_scalar(kDtypes[I])) {
    return {round_one<Dtype(I)>, Number<Dtype(I)>::widen_bits};
  } else {
    return {};
  }
}

constexpr auto kScalars = []<size_t... I>(std::index_sequence<I...>) {
  return std::array<Scalar, sizeof...(I)>{scalar_of<I>()...};
}(std::make_index_sequence<kDtypes.size()>{});

}  // namespace

uint64_t DtypeRow::round(float value, Rounding& rounding) const {
  const Scalar& scalar = kScalars[size_t(dtype)];
  CHECK(scalar.round, "the dtype has no scalar value of float's width");
  return scalar.round(value, rounding);
}

float DtypeRow::widen(uint64_t bits) const {
  const Scalar& scalar = kScalars[size_t(dtype)];
  CHECK(scalar.widen, "the dtype has no scalar value of float's width");
  return scalar.widen(bits);
}

std::optional<Dtype> dtype_by_name(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const DtypeRow& r : kDtypes) {
    if (r.name == name) return r.dtype;
  }
  for (const DtypeRow& r : kDtypes) {
    const NamesAbroad& a = r.abroad;
    for (std::string_view other : {a.numpy, a.nki, a.stablehlo, a.torch, a.safetensors}) {
      if (other == name) return r.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace trine
