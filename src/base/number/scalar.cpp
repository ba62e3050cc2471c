// One element between a double and its dtype.
#include "base/number/scalar.h"

#include <cstring>
#include <limits>

namespace trine {

Tensor scalar(Dtype dtype, double value) {
  Tensor out = Tensor::make(dtype, {});
  dispatch_element(dtype, [&](auto element) {
    using E = decltype(element);
    using W = typename E::Wide;
    W wide{};
    if constexpr (E::kIsInteger) {  // the ends of 64-bit integers are no doubles
      constexpr W high = W(~uint64_t{0} >> (64 - E::kBits + int(E::kIsSigned)));
      constexpr W low = E::kIsSigned ? W(-high - 1) : W(0);
      wide = value >= double(high) ? high : value > double(low) ? W(value) : low;
    } else if constexpr (E::kIsBoolean) {
      wide = value != 0;
    } else if constexpr (E::kIsFloating) {
      wide = value;
    }
    *out.view().template as<typename E::Storage>() = E::store(wide);
  });
  return out;
}

double number(const Tensor& tensor) {
  return dispatch_element(tensor.dtype, [&](auto element) -> double {
    using E = decltype(element);
    if constexpr (E::kIsComplex) {
      return std::numeric_limits<double>::quiet_NaN();
    } else {
      return double(E::load(*tensor.view().template as<const typename E::Storage>()));
    }
  });
}

bool is_splat(std::span<const std::byte> data, size_t element_bytes) {
  return !data.empty() && std::memcmp(data.data(), data.data() + element_bytes, data.size() - element_bytes) == 0;
}
bool is_splat(const Tensor& tensor) {
  return is_splat({tensor.data.get(), tensor.bytes()}, size_t(bytes(tensor.dtype)));
}

}  // namespace trine
