// Speed of bulk conversion: GB/s (bytes read plus written) of each conversion beside a memcpy that moves as many
// bytes, taken alternately in the same run, least time of each. Buffers come from memory (64 MB of f32) or stay in L2.
#include "base/number/convert.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/number/random.h"
#include "base/text.h"

using namespace trine;

namespace {

struct Case {
  Dtype from, to;
  RoundingMode mode = RoundingMode::nearest_even;
};

constexpr RoundingMode kStochastic = RoundingMode::stochastic;
const Case kCases[] = {
    {Dtype::bf16, Dtype::f32},
    {Dtype::f32, Dtype::bf16},
    {Dtype::f16, Dtype::f32},
    {Dtype::f32, Dtype::f16},
    {Dtype::f8e4m3, Dtype::f32},
    {Dtype::f32, Dtype::f8e4m3},
    {Dtype::f8e4m3fn, Dtype::f32},
    {Dtype::f32, Dtype::f8e4m3fn},
    {Dtype::f8e5m2, Dtype::f32},
    {Dtype::f32, Dtype::f8e5m2},
    {Dtype::f8e3m4, Dtype::f32},
    {Dtype::f32, Dtype::f8e3m4},
    {Dtype::f4e2m1, Dtype::f32},
    {Dtype::f32, Dtype::f4e2m1},
    {Dtype::s8, Dtype::f32},
    {Dtype::f32, Dtype::s8},
    {Dtype::u8, Dtype::f32},
    {Dtype::f32, Dtype::u8},
    {Dtype::s16, Dtype::f32},
    {Dtype::f32, Dtype::s16},
    {Dtype::s32, Dtype::f32},
    {Dtype::f32, Dtype::s32},
    {Dtype::f32, Dtype::tf32},
    {Dtype::bf16, Dtype::f16},
    {Dtype::f8e4m3fn, Dtype::bf16},
    {Dtype::bf16, Dtype::f8e4m3fn},
    {Dtype::s64, Dtype::s32},
    {Dtype::f32, Dtype::bf16, kStochastic},
    {Dtype::f32, Dtype::f8e4m3fn, kStochastic},
};

double seconds(auto&& body) {
  auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Speed {
  double copy = 0, best = 0, portable = 0;  // GB/s
};

Speed measure(const Case& c, size_t n, int repeat, int rounds) {
  size_t moved = bytes(c.from, n) + bytes(c.to, n);
  std::vector<std::byte> from(bytes(c.from, n)), to(bytes(c.to, n)), a(moved / 2), b(moved / 2);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = (uniform(uint32_t(i * 2654435761u)) - 0.5f) * 20;
  Rounding rounding{c.mode, 1, 0};
  auto run = [&](Simd simd) {
    for (int i = 0; i < repeat; ++i) {
      if (!convert(from, c.from, to, c.to, rounding, simd)) std::abort();
    }
  };
  if (!convert(std::as_bytes(std::span(values)), Dtype::f32, from, c.from)) std::abort();
  double copy = std::numeric_limits<double>::max(), best = copy, portable = copy;
  for (int round = 0; round < rounds; ++round) {
    copy = std::min(copy, seconds([&] {
                      for (int i = 0; i < repeat; ++i) {
                        std::memcpy(b.data(), a.data(), a.size());
                        asm volatile("" ::: "memory");
                      }
                    }));
    best = std::min(best, seconds([&] { run(simd_best()); }));
    if (round % 4 == 0) portable = std::min(portable, seconds([&] { run(Simd::portable); }));
  }
  double gb = double(moved) * repeat / 1e9;
  return {gb / copy, gb / best, gb / portable};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 12;
  std::vector<std::vector<std::string>> table = {
      {"from", "to", "rounding", "memory GB/s", "copy", "ratio", "portable", "L2 GB/s", "copy", "ratio", "portable"}};
  for (const Case& c : kCases) {
    Speed memory = measure(c, size_t{16} << 20, 1, rounds);
    Speed cache = measure(c, size_t{24} << 10, 200, rounds);
    std::vector<std::string> line = {std::string(row(c.from).name), std::string(row(c.to).name),
                                     c.mode == kStochastic ? "stochastic" : "nearest"};
    for (const Speed& s : {memory, cache}) {
      for (std::string& cell :
           std::vector{fixed(s.best, 1), fixed(s.copy, 1), fixed(s.best / s.copy, 2), fixed(s.portable, 1)}) {
        line.push_back(cell);
      }
    }
    table.push_back(line);
  }
  std::fputs(columns(table, "00011111111").c_str(), stdout);
}
