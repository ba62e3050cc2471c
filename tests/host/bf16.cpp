// Rounding to bf16 wherever it is done in host/: every build gives the bits of base/number/number.h, for NaNs of every
// sign and payload, numbers below the least normal one, ties, infinities and what rounds up to them.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/number/convert.h"
#include "base/number/element.h"
#include "host/windows_kernels.h"
#include "tests/host/loop_case.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

// Every upper half, with lower halves at, beside and far from the tie; a count that leaves a rest.
std::vector<float> all_numbers() {
  std::vector<float> out;
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      out.push_back(std::bit_cast<float>(upper << 16 | lower));
  for (uint32_t bits : {0x7f800001u, 0x80000001u, 0x3f808000u}) out.push_back(std::bit_cast<float>(bits));
  return out;
}

std::vector<uint16_t> halves_of(const std::vector<float>& x) {
  std::vector<uint16_t> out(x.size());
  row_kernels(Dtype::bf16, Simd::portable).round(x.data(), out.data(), x.size(), nullptr);
  return out;
}

// Some that make sums with NaN, infinity, numbers below the least normal one, and ties.
std::vector<uint16_t> some_halves() {
  std::vector<uint16_t> out;
  for (uint16_t magnitude : {0x0000, 0x0001, 0x0040, 0x007f, 0x0080, 0x3b80, 0x3c00, 0x3f80, 0x3f81, 0x4000, 0x7f00,
                             0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7fff})
    for (uint16_t sign : {0, 0x8000}) out.push_back(uint16_t(sign | magnitude));
  return out;
}

}  // namespace

TEST_CASE("a store and a rounding inside a program give the bits of the number format") {
  const std::vector<float> in = all_numbers();
  const std::vector<uint16_t> expected = halves_of(in);
  const auto n = int64_t(in.size());
  LoopBuilder t;
  t.dim(n);
  LoopValue x = t.load(t.input(Dtype::f32, n, {1}));
  t.store(t.output(Dtype::bf16, n, {1}), x);
  t.store(t.output(Dtype::f32, n, {1}), t.round_to(x, Dtype::bf16));
  for (const auto& build : test::kBuilds) {
    INFO("machine code ", build.machine_code, " bf16 ", build.bf16);
    auto kernel = host::prepare(t.program(), build);
    REQUIRE(kernel);
    std::vector<uint16_t> narrow(in.size());
    std::vector<uint32_t> wide(in.size());
    void* operands[] = {const_cast<float*>(in.data()), narrow.data(), wide.data()};
    host::run(*kernel, operands);
    CHECK(narrow == expected);
    bool is_same = true;
    for (size_t i = 0; i < in.size(); ++i) is_same &= wide[i] == uint32_t(expected[i]) << 16;
    CHECK(is_same);
  }
}

TEST_CASE("single numbers are rounded as vectors are") {
  LoopBuilder t;
  LoopValue x = t.load(t.input(Dtype::f32, 1, {}));
  t.store(t.output(Dtype::bf16, 1, {}), x);
  for (const auto& build : test::kBuilds) {
    auto kernel = host::prepare(t.program(), build);
    REQUIRE(kernel);
    for (uint32_t bits : {0x7f800001u, 0xffc12345u, 0x00000001u, 0x807fffffu, 0x3f808000u, 0x3f818000u, 0x7f7fffffu,
                          0xff800000u, 0x3f80ffffu}) {
      float in = std::bit_cast<float>(bits);
      uint16_t got = 0;
      void* operands[] = {&in, &got};
      host::run(*kernel, operands);
      CHECK(got == halves_of({in})[0]);
    }
  }
}

// Operands that all rows share are widened once, and several rows are added to columns' sums at a time.
TEST_CASE("machine code gives the interpreter's bits of rows and columns of any size") {
  auto program = [](int64_t rows, int64_t columns, Dtype d, bool reduces_columns) {
    LoopBuilder t;
    t.dim(rows, !reduces_columns);
    t.dim(columns, reduces_columns);
    LoopValue x = t.load(t.input(d, rows * columns, {columns, 1})), w = t.load(t.input(d, columns, {0, 1}));
    LoopValue y = t.binary(LoopOp::mul, t.binary(LoopOp::add, x, w), w), sum = t.unary(LoopOp::reduce_sum, y);
    t.once();
    t.store(reduces_columns ? t.output(d, rows, {1, 0}) : t.output(d, columns, {0, 1}), sum);
    t.each();
    t.store(t.output(d, rows * columns, {columns, 1}), t.binary(LoopOp::sub, y, sum));
    return t.take();
  };
  for (Dtype d : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (int64_t rows : {1, 2, 3, 4, 5, 9, 70}) {
      for (int64_t columns : {1, 7, 8, 9, 100, 4096, 4104}) {
        for (bool reduces_columns : {false, true}) {
          INFO(rows, " ", columns, " ", reduces_columns);
          const LoopProgram p = program(rows, columns, d, reduces_columns);
          auto slow = host::prepare(p, {simd_best(), false});
          REQUIRE(slow);
          const test::LoopBuffers given = test::random_buffers(p, 1);
          for (bool bf16 : {false, has_avx512_bf16()}) {
            auto fast = host::prepare(p, {simd_best(), true, bf16});
            REQUIRE(fast);
            test::LoopBuffers a = given, b = given;
            host::run(*slow, a.pointers());
            host::run(*fast, b.pointers());
            CHECK(test::difference(p, b, a) == "");
          }
        }
      }
    }
  }
}

#if defined(__x86_64__)
namespace {

// `combine_of(kind)` on all pairs of these numbers. NaN and NaN is left out: which of the two a sum keeps is the
// processor's choice.
template <class E, class CombineOf>
void check_rows(const std::vector<typename E::Storage>& some, CombineOf combine_of) {
  using Row = std::vector<typename E::Storage>;
  for (auto kind : {WindowKind::add, WindowKind::multiply, WindowKind::maximum, WindowKind::minimum}) {
    Row to, from, expected;
    for (const auto a : some) {
      for (const auto b : some) {
        const float x = E::load(a), y = E::load(b);
        if (x != x && y != y) continue;
        const bool is_below = x < y || (x == y && std::signbit(x)), is_above = y < x || (x == y && std::signbit(y));
        const float most = is_below || y != y ? y : x, least = is_above || y != y ? y : x;
        to.push_back(a);
        from.push_back(b);
        expected.push_back(E::store(kind == WindowKind::add        ? x + y
                                    : kind == WindowKind::multiply ? x * y
                                    : kind == WindowKind::maximum  ? most
                                                                   : least));
      }
    }
    for (int64_t count : {int64_t{3}, int64_t{16}, int64_t(to.size())}) {
      Row got = to, want = to;
      std::copy(expected.begin(), expected.begin() + count, want.begin());
      combine_of(kind)(got.data(), from.data(), count);
      CHECK(std::memcmp(got.data(), want.data(), got.size() * sizeof(got[0])) == 0);
    }
  }
}

}  // namespace

TEST_CASE("rows of a scatter are combined as numbers are") {
  if (has_avx512_bf16()) check_rows<Element<Dtype::bf16>>(some_halves(), host::combine_bf16_avx512);
  if (simd_best() != Simd::avx2) return;
  std::vector<float> some;
  for (const uint16_t half : some_halves()) some.push_back(Element<Dtype::bf16>::load(half));
  check_rows<Element<Dtype::f32>>(some, host::combine_f32_avx2);
}
#endif
