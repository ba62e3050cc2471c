// mulhi: the upper half of the product of two integers, as wide as they are.
#include "ops/elementwise.h"

namespace trine::ops {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

extern const Op op_mulhi = binary("mulhi", []<Integer T>(const DtypeRow& of, T a, T b) -> T {
  using Wider = std::conditional_t<std::same_as<T, int64_t>, Int128, Uint128>;
  return T((Wider(a) * Wider(b)) >> of.bits);
});

}  // namespace trine::ops
