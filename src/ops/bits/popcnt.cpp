// popcnt: how many bits are one.
#include "ops/elementwise.h"

#include <bit>

namespace trine::ops {

// An element's own bits, without the sign's extension.
static uint64_t own_bits(const DtypeRow& of, uint64_t x) { return x & (~uint64_t{0} >> (64 - of.bits)); }

extern const Op op_popcnt =
    unary("popcnt", []<Integer T>(const DtypeRow& of, T x) -> T { return T(std::popcount(own_bits(of, uint64_t(x)))); },
          {.host = {.op = arch::LoopOp::popcount}});

}  // namespace trine::ops
