// Numbers in tensors of one: each dtype takes the nearest it has.
#include "base/number/scalar.h"

#include <doctest/doctest.h>
#include <cmath>

namespace trine {

TEST_CASE("a scalar is the nearest number that its dtype has") {
  for (const DtypeRow& r : kDtypes) {
    if (r.kind == DtypeKind::packed || r.kind == DtypeKind::complex) continue;
    CAPTURE(r.name);
    CHECK(number(scalar(r.dtype, 1)) == 1);
    if (!is_integer(r.dtype)) continue;
    const bool is_signed = r.kind == DtypeKind::signed_int;
    CHECK(number(scalar(r.dtype, -HUGE_VAL)) == (is_signed ? -std::ldexp(1, r.bits - 1) : 0));
    CHECK(number(scalar(r.dtype, -1)) == (is_signed ? -1 : 0));
  }
  CHECK(*scalar(Dtype::s64, 0x1p63).view().as<int64_t>() == INT64_MAX);
  CHECK(*scalar(Dtype::u64, 0x1p64).view().as<uint64_t>() == UINT64_MAX);
  CHECK(*scalar(Dtype::u64, 0x1p63).view().as<uint64_t>() == uint64_t{1} << 63);
  CHECK(number(scalar(Dtype::u8, 300)) == 255);
  CHECK(number(scalar(Dtype::s32, -7.9)) == -7);
  CHECK(number(scalar(Dtype::bf16, HUGE_VAL)) == HUGE_VAL);
  CHECK(std::isnan(number(scalar(Dtype::c64, 1))));
}

}  // namespace trine
