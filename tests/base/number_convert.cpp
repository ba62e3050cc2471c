// Bulk conversion: both paths bit-equal to the rows, for all lengths, alignments and dtypes; errors for wrong sizes.
#include "base/number/convert.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/number/random.h"
#include "tests/testing.h"

using namespace trine;

namespace {

// Random bit patterns, and the values around which formats change their minds.
std::vector<float> interesting(size_t n) {
  std::vector<float> out = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1e-45f, -1e-45f, 0x1p-126f, 3.4028235e38f};
  for (const DtypeRow& r : kChipDtypes) {
    if (r.kind == DtypeKind::packed) continue;
    for (double edge : {r.max_finite, r.min_finite, r.max_finite + 0.5, r.max_finite * (1 + 0x1p-5)}) {
      float f = float(edge);
      for (float v : {f, std::nextafter(f, INFINITY), std::nextafter(f, -INFINITY)}) out.push_back(v);
    }
    if (r.kind != DtypeKind::floating || r.bits > 8) continue;
    for (uint64_t b = 0; b + 1 < uint64_t{1} << r.bits; ++b) {
      float tie = (r.widen(b) + r.widen(b + 1)) / 2;
      for (float v : {tie, std::nextafter(tie, INFINITY), std::nextafter(tie, -INFINITY)}) out.push_back(v);
    }
  }
  for (int i = -300; i < 300; ++i) out.push_back(float(i) / 4);
  while (out.size() < n) out.push_back(std::bit_cast<float>(random_at(3, out.size())));
  out.resize(n);
  return out;
}

std::vector<std::byte> reference(const std::vector<float>& in, Dtype dtype, Rounding rounding) {
  std::vector<std::byte> out(bytes(dtype, in.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    uint64_t code = row(dtype).round(in[i], rounding);
    if (bits(dtype) == 4) {
      out[i / 2] |= std::byte(code << (i % 2 * 4));
    } else {
      std::memcpy(&out[i * size_t(bytes(dtype))], &code, size_t(bytes(dtype)));
    }
  }
  return out;
}

bool same(const void* a, const void* b, size_t n) { return n == 0 || std::memcmp(a, b, n) == 0; }

}  // namespace

TEST_CASE("rounding rows: both paths equal the row's definition") {
  const auto values = interesting(60001);
  for (const DtypeRow& r : kChipDtypes) {
    if (r.kind == DtypeKind::packed) continue;
    for (RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::stochastic}) {
      const Rounding rounding{mode, 11, 5};
      auto expected = reference(values, r.dtype, rounding);
      for (Simd simd : {Simd::portable, simd_best()}) {
        std::vector<std::byte> out(expected.size());
        auto done = convert(std::as_bytes(std::span(values)), Dtype::f32, out, r.dtype, rounding, simd);
        CHECK(done.has_value());
        CHECK_MESSAGE(same(out.data(), expected.data(), out.size()), r.name);
      }
      std::vector<std::byte> out(expected.size());
      Rounding running = rounding;
      round_row(values.data(), out.data(), r.dtype, values.size(), running);
      CHECK_MESSAGE(same(out.data(), expected.data(), out.size()), r.name);
      CHECK(running.index == 5 + values.size());
    }
  }
}

TEST_CASE("widening rows: both paths equal the row's definition on every pattern") {
  for (const DtypeRow& r : kChipDtypes) {
    if (r.kind == DtypeKind::packed) continue;
    size_t n = r.bits <= 16 ? size_t{1} << r.bits : 10007;
    std::vector<uint8_t> in(bytes(r.dtype, n));
    std::vector<float> expected(n);
    for (size_t i = 0; i < n; ++i) {
      uint64_t code = r.bits <= 16 ? i : uint64_t{random_at(1, i)} << 32 | random_at(2, i);
      expected[i] = r.widen(code);
      if (r.bits == 4) {
        in[i / 2] = uint8_t(in[i / 2] | code << (i % 2 * 4));
      } else {
        std::memcpy(&in[i * size_t(bytes(r.dtype))], &code, size_t(bytes(r.dtype)));
      }
    }
    for (Simd simd : {Simd::portable, simd_best()}) {
      std::vector<float> out(n);
      row_kernels(r.dtype, simd).widen(in.data(), out.data(), n);
      CHECK_MESSAGE(same(out.data(), expected.data(), n * 4), r.name);
    }
  }
}

TEST_CASE("every length and alignment: nothing past the row is touched") {
  const auto values = interesting(200);
  for (const DtypeRow& r : kChipDtypes) {
    if (r.kind == DtypeKind::packed) continue;
    for (Simd simd : {Simd::portable, simd_best()}) {
      for (size_t n = 0; n < 70; ++n) {
        size_t shift = n % 7, size = bytes(r.dtype, n);
        std::vector<float> part(values.begin() + 100, values.begin() + 100 + long(n));
        auto expected = reference(part, r.dtype, {});
        std::vector<std::byte> out(size + 80, std::byte{0xa5});
        CHECK(convert(std::as_bytes(std::span(part)), Dtype::f32, std::span(out).subspan(shift, size), r.dtype, {},
                      simd));
        CHECK(same(out.data() + shift, expected.data(), size));
        for (size_t i = 0; i < out.size(); ++i) {
          if (i < shift || i >= shift + size) CHECK(out[i] == std::byte{0xa5});
        }
        std::vector<std::byte> back(n * 4 + 80, std::byte{0xa5});
        CHECK(convert(std::span(out).subspan(shift, size), r.dtype, std::span(back).subspan(shift, n * 4), Dtype::f32,
                      {}, simd));
        for (size_t i = 0; i < back.size(); ++i) {
          if (i < shift || i >= shift + n * 4) CHECK(back[i] == std::byte{0xa5});
        }
      }
    }
  }
}

TEST_CASE("large results stream to memory with the same bits") {
  const auto values = interesting((size_t{9} << 20) / 4 + 3);
  std::vector<std::byte> small(values.size() * 2);
  REQUIRE(convert(std::as_bytes(std::span(values)), Dtype::f32, small, Dtype::bf16));
  std::vector<float> wide(values.size());
  REQUIRE(convert(small, Dtype::bf16, std::as_writable_bytes(std::span(wide)), Dtype::f32));
  for (size_t i = 0; i < values.size(); i += 997) {
    CHECK(std::bit_cast<uint32_t>(wide[i]) ==
          std::bit_cast<uint32_t>(Number<Dtype::bf16>::widen(Number<Dtype::bf16>::round(values[i]))));
  }
}

TEST_CASE("stochastic results do not depend on how the row is cut") {
  const auto values = interesting(5000);
  std::vector<uint8_t> whole(5000), pieces(5000);
  Rounding one{RoundingMode::stochastic, 9, 100}, many = one;
  round_row(values.data(), whole.data(), Dtype::f8e4m3fn, 5000, one);
  for (size_t i = 0; i < 5000; i += 37) {
    round_row(values.data() + i, pieces.data() + i, Dtype::f8e4m3fn, std::min<size_t>(37, 5000 - i), many);
  }
  CHECK(whole == pieces);
}

TEST_CASE("integers among themselves saturate exactly") {
  const int64_t values[] = {0, 1, -1, 7, 8, -8, -9, 127, 128, 300, -300, 70000, int64_t{1} << 40, INT64_MAX, INT64_MIN};
  const size_t n = std::size(values);
  for (const DtypeRow& r : kChipDtypes) {
    if (!is_integer(r.dtype)) continue;
    std::vector<std::byte> out(bytes(r.dtype, n));
    REQUIRE(convert(std::as_bytes(std::span(values)), Dtype::s64, out, r.dtype));
    std::vector<int64_t> back(n);
    REQUIRE(convert(out, r.dtype, std::as_writable_bytes(std::span(back)), Dtype::s64));
    int value_bits = r.bits - (r.kind == DtypeKind::signed_int);
    int64_t max = value_bits >= 63 ? INT64_MAX : (int64_t{1} << value_bits) - 1;
    int64_t min = r.kind == DtypeKind::signed_int ? -max - 1 : 0;
    for (size_t i = 0; i < n; ++i) CHECK_MESSAGE(back[i] == std::min(std::max(values[i], min), max), r.name);
  }
  const uint64_t big = ~uint64_t{0};
  int32_t narrow = 0;
  REQUIRE(convert(std::as_bytes(std::span(&big, 1)), Dtype::u64, std::as_writable_bytes(std::span(&narrow, 1)),
                  Dtype::s32));
  CHECK(narrow == INT32_MAX);
}

TEST_CASE("wrong sizes and packed carriers are errors that say so") {
  std::vector<std::byte> four(4), eight(8);
  auto size = convert(four, Dtype::f32, eight, Dtype::f32);
  CHECK(!size.has_value());
  CHECK(size.error().message == "cannot convert 4 bytes of f32 into 8 bytes of f32; 1 elements take 4 and 4 bytes");
  auto packed = convert(four, Dtype::f8e4m3fn_x4, four, Dtype::f32);
  CHECK(!packed.has_value());
  CHECK(packed.error().code == Code::unsupported);
  CHECK(convert(four, Dtype::f8e4m3fn_x4, four, Dtype::f8e4m3fn_x4).has_value());
}

TEST_CASE("formats that no chip has have no loops") {
  for (const DtypeRow& r : std::span(kDtypes).subspan(kChipDtypes.size())) {
    for (Simd simd : {Simd::portable, simd_best()}) {
      CAPTURE(std::string(r.name));
      CHECK(!row_kernels(r.dtype, simd).widen);
      CHECK(!row_kernels(r.dtype, simd).round);
    }
  }
}
