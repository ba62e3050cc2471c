// count_leading_zeros: zero bits above the highest one bit; the width for zero.
#include "ops/elementwise.h"

#include <bit>

namespace trine::ops {

// An element's own bits, without the sign's extension.
static uint64_t own_bits(const DtypeRow& of, uint64_t x) { return x & (~uint64_t{0} >> (64 - of.bits)); }

extern const Op op_count_leading_zeros = unary("count_leading_zeros",
                                               []<Integer T>(const DtypeRow& of, T x) -> T {
                                                 return T(std::countl_zero(own_bits(of, uint64_t(x))) - (64 - of.bits));
                                               },
                                               {.host = {.op = arch::LoopOp::clz}});

}  // namespace trine::ops
