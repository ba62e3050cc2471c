// Number formats one value at a time: names, round trips, rounding against a plain search, stochastic means.
#include "base/number/number.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/number/random.h"
#include "tests/testing.h"

using namespace trine;

namespace {

bool small_float(const DtypeRow& r) { return r.kind == DtypeKind::floating && r.bits <= 16; }

}  // namespace

TEST_CASE("every name finds its row, and no two rows share one") {
  for (const DtypeRow& r : kDtypes) {
    CHECK(dtype_by_name(r.name) == r.dtype);
    for (std::string_view name :
         {r.abroad.numpy, r.abroad.nki, r.abroad.stablehlo, r.abroad.torch, r.abroad.safetensors}) {
      if (!name.empty()) CHECK_MESSAGE(dtype_by_name(name) == r.dtype, name);
    }
  }
  CHECK(!dtype_by_name(""));
  CHECK(!dtype_by_name("float7"));
}

TEST_CASE("sizes: sub-byte rows pack two a byte") {
  CHECK(bytes(Dtype::f4e2m1) == 1);
  CHECK(bytes(Dtype::f4e2m1, 3) == 2);
  CHECK(bytes(Dtype::tf32, 3) == 12);
  CHECK(bytes(Dtype::f4e2m1fn_x4, 3) == 6);
}

TEST_CASE("dispatch reaches the type of each row") {
  for (const DtypeRow& r : kChipDtypes) {
    CHECK(dispatch(r.dtype, [](auto n) { return decltype(n)::kDtype; }) == r.dtype);
    CHECK(dispatch(r.dtype, [](auto n) { return int(sizeof(typename decltype(n)::Storage)); }) == bytes(r.dtype));
  }
}

TEST_CASE("rounding a widened value gives its bits back") {
  Rounding nearest;
  for (const DtypeRow& r : kDtypes) {
    if (r.kind == DtypeKind::packed || r.bits > 16) continue;
    for (uint64_t b = 0; b < uint64_t{1} << r.bits; ++b) {
      float wide = r.widen(b);
      if (std::isnan(wide)) continue;
      uint64_t expected = r.kind == DtypeKind::boolean ? b != 0 : b;
      if (r.round(wide, nearest) != expected) FAIL(std::string(r.name) << " " << b);
    }
  }
}

// The definition, independently: the nearest of all finite values, ties to the even code.
TEST_CASE("nearest even is the nearest of all values") {
  for (const DtypeRow& r : kDtypes) {
    if (!small_float(r) || r.dtype == Dtype::f8e8m0) continue;
    std::vector<double> values;  // code is index
    for (uint64_t b = 0; b <= r.format.max_bits; ++b) values.push_back(double(r.widen(b)));
    Rounding nearest;
    for (uint64_t i = 0; i < 20000; ++i) {
      float x = std::ldexp(1 + uniform(random_at(1, i)), int(random_at(2, i) % 60) - 40);
      if (x >= r.max_finite) continue;
      size_t above = size_t(std::upper_bound(values.begin(), values.end(), double(x)) - values.begin());
      double down = x - values[above - 1], up = values[above] - x;
      size_t code = down < up || (down == up && above % 2 == 1) ? above - 1 : above;
      if (r.round(x, nearest) != code) FAIL(std::string(r.name) << " " << x);
      const bool is_zero = code == 0 && r.format.nan_is_minus_zero;  // which has no sign there
      if (r.round(-x, nearest) != (is_zero ? 0 : code | size_t{1} << (r.bits - 1)))
        FAIL(std::string(r.name) << " " << -x);
    }
  }
}

TEST_CASE("overflow follows each format's rule") {
  Rounding r;
  const float inf = INFINITY;
  CHECK(row(Dtype::f8e4m3).round(248.0f, r) == 0x78);  // a tie beyond 240 goes to infinity
  CHECK(row(Dtype::f8e4m3).round(247.9f, r) == 0x77);
  CHECK(row(Dtype::f8e4m3fn).round(464.0f, r) == 0x7e);  // a tie at 448 stays
  CHECK(row(Dtype::f8e4m3fn).round(464.1f, r) == 0x7f);
  CHECK(row(Dtype::f8e4m3fn).round(-inf, r) == 0xff);
  CHECK(row(Dtype::f8e5m2).round(61440.0f, r) == 0x7c);
  CHECK(row(Dtype::f8e3m4).round(-15.75f, r) == 0xf0);
  CHECK(row(Dtype::f4e2m1).round(inf, r) == 7);
  CHECK(row(Dtype::f4e2m1).round(-1e30f, r) == 15);
  CHECK(row(Dtype::f8e8m0).round(0.0f, r) == 0xff);
  CHECK(row(Dtype::bf16).round(3.4e38f, r) == 0x7f80);
  CHECK(row(Dtype::tf32).round(3.4027e38f, r) == 0x7f800000);
}

TEST_CASE("integers round to even, saturate, and take NaN as 0") {
  Rounding r;
  CHECK(row(Dtype::s8).round(2.5f, r) == 2);
  CHECK(row(Dtype::s8).round(3.5f, r) == 4);
  CHECK(row(Dtype::s8).round(-0.5f, r) == 0);
  CHECK(row(Dtype::s8).round(-1e9f, r) == 0x80);
  CHECK(row(Dtype::u8).round(-3.0f, r) == 0);
  CHECK(row(Dtype::u8).round(255.5f, r) == 255);
  CHECK(row(Dtype::s4).round(-7.5f, r) == 8);
  CHECK(row(Dtype::s4).round(9.0f, r) == 7);
  CHECK(row(Dtype::s32).round(NAN, r) == 0);
  CHECK(row(Dtype::s32).round(INFINITY, r) == 0x7fffffff);
  CHECK(row(Dtype::u32).round(4294967040.0f, r) == 4294967040u);
  CHECK(row(Dtype::u32).round(1e30f, r) == 0xffffffff);
  CHECK(row(Dtype::s64).round(0x1p63f, r) == 0x7fffffffffffffff);
  CHECK(row(Dtype::s64).round(-0x1p63f, r) == 0x8000000000000000);
  CHECK(row(Dtype::u64).round(0x1p64f, r) == ~uint64_t{0});
  CHECK(row(Dtype::boolean).round(NAN, r) == 1);
  CHECK(row(Dtype::boolean).round(-0.0f, r) == 0);
}

TEST_CASE("stochastic rounding picks a neighbour, with the right mean") {
  for (const DtypeRow& r : kChipDtypes) {
    if (r.kind != DtypeKind::floating || r.dtype == Dtype::f32) continue;
    for (float x : {1.0f + 0x1p-12f, 1.3f, 2.7f, 0.01171f, 3.0f}) {
      if (r.dtype == Dtype::f4e2m1 && x < 0.5f) x *= 10;
      Rounding nearest, stochastic{RoundingMode::stochastic, 42, 0};
      constexpr int kTries = 20000;
      double sum = 0;
      std::set<float> seen;
      for (int i = 0; i < kTries; ++i) {
        float y = r.widen(r.round(x, stochastic));
        seen.insert(y);
        sum += y;
      }
      CHECK(stochastic.index == kTries);
      CHECK(seen.size() <= 2);
      CHECK(seen.count(r.widen(r.round(x, nearest))) == 1);
      if (r.widen(r.round(x, nearest)) == x) CHECK(seen.size() == 1);
      double gap = *seen.rbegin() - *seen.begin();
      CHECK_MESSAGE(std::abs(sum / kTries - x) <= 4 * gap * 0.5 / std::sqrt(double(kTries)) + x * 1e-9 +
                                                      (seen.size() == 1 ? std::abs(*seen.begin() - x) : 0),
                    std::string(r.name) << " " << x);
    }
  }
}

TEST_CASE("Philox gives the published words") {
  // Random123's known answers for philox4x32, 10 rounds.
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random_fill equals random_at on every path, at every start") {
  std::vector<uint32_t> words(100);
  for (Simd simd : {Simd::portable, simd_best()}) {
    for (uint64_t index : {uint64_t{0}, uint64_t{3}, uint64_t{0xffffffff} * 4 - 40}) {
      for (size_t n : {0, 1, 5, 33, 100}) {
        random_fill(77, index, words.data(), n, simd);
        for (size_t i = 0; i < n; ++i) CHECK(words[i] == random_at(77, index + i));
      }
    }
  }
}

TEST_CASE("XORWOW follows Marsaglia's first words") {
  // From his seeds x..v and d; the recurrence computed by hand in 64-bit arithmetic for the first word.
  Xorwow g{{123456789, 362436069, 521288629, 88675123, 5783321, 6615241}};
  uint64_t t = 123456789u ^ (123456789u >> 2);
  uint64_t v = (5783321u ^ (5783321u << 4)) ^ (t ^ (t << 1));
  CHECK(g.next() == uint32_t(v + 6615241 + 362437));
  CHECK(g.words == std::array<uint32_t, 6>{362436069, 521288629, 88675123, 5783321, uint32_t(v), 6615241 + 362437});
}

TEST_CASE("the engines' generators are balanced and do not repeat early") {
  auto lane = XorwowLane::seeded(5, 9);
  auto lfsr = Lfsr::seeded(5, 9);
  std::set<uint32_t> a, b;
  double ones = 0;
  for (int i = 0; i < 20000; ++i) {
    uint32_t x = lane.next(), y = lfsr.next();
    a.insert(x);
    b.insert(y);
    ones += std::popcount(x) + std::popcount(y);
  }
  CHECK(a.size() > 19990);
  CHECK(b.size() == 20000);  // a maximal register visits every state once
  CHECK(std::abs(ones / (20000 * 64) - 0.5) < 0.003);
}
