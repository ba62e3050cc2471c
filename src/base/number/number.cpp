// Names of number formats, and the random words of stochastic rounding. The rows themselves are in number.h.
#include "base/number/number.h"

#include "base/number/random.h"

namespace trine {

uint32_t Rounding::next() { return random_at(seed, index++); }

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
