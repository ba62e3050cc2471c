// See the header.
#include "tests/host/loop_case.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/number/element.h"
#include "base/number/random.h"
#include "base/text.h"
#include "tests/host/loop_reference.h"

namespace trine::test {

using namespace arch;

namespace {

double random_number(uint64_t seed, uint64_t i, bool special) {
  uint32_t r = random_at(uint32_t(seed), i), s = random_at(uint32_t(seed + 77), i);
  if (special && r % 8 == 0) {
    constexpr double kSpecial[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-40, 3e38, -3e38, 0.5, 2.5, -2.5, 127};
    return kSpecial[s % std::size(kSpecial)];
  }
  return (double(uniform(s)) - 0.5) * std::ldexp(1.0, int(r % 5));
}

template <class E>
typename E::Storage random_element(uint64_t seed, uint64_t i, bool special) {
  if constexpr (E::kIsComplex) {
    return {};
  } else if constexpr (E::kIsFloating) {
    return E::store(random_number(seed, i, special));
  } else {
    uint64_t raw = uint64_t{random_at(uint32_t(seed), i)} << 32 | random_at(uint32_t(seed) + 1, i);
    if (raw % 3) raw = uint64_t(int64_t(raw) >> 58);  // small numbers meet more often
    return E::store(typename E::Wide(raw));
  }
}

}  // namespace

LoopBuffers random_buffers(const LoopProgram& p, uint64_t seed, bool special) {
  LoopBuffers out;
  for (size_t o = 0; o < p.operands.size(); ++o) {
    const LoopOperand& op = p.operands[o];
    std::vector<std::byte> data(size_t(op.elements) * size_t(bytes(op.dtype)) + 8, std::byte{0x5a});
    if (!op.output) {
      dispatch_element(op.dtype, [&](auto element) {
        using E = decltype(element);
        for (int64_t i = 0; i < op.elements; ++i) {
          auto s = random_element<E>(seed * 31 + o, uint64_t(i), special);
          std::memcpy(&data[size_t(i) * sizeof s], &s, sizeof s);
        }
      });
    }
    out.data.push_back(std::move(data));
  }
  return out;
}

double ulps_between(double got, double expected, bool wide) {
  if (std::isnan(got) && std::isnan(expected)) return 0;
  if (got == expected) return 0;
  if (!std::isfinite(got) || !std::isfinite(expected)) return 1e30;
  double least = wide ? std::numeric_limits<double>::min() : double(std::numeric_limits<float>::min());
  int e;
  std::frexp(std::max(std::fabs(expected), least), &e);
  return std::fabs(got - expected) / std::ldexp(1.0, e - (wide ? 53 : 24));
}

std::string difference(const LoopProgram& p, const LoopBuffers& got, const LoopBuffers& expected, double ulps,
                       double relative) {
  for (size_t o = 0; o < p.operands.size(); ++o) {
    const LoopOperand& op = p.operands[o];
    if (std::memcmp(got.data[o].data(), expected.data[o].data(), got.data[o].size()) == 0) continue;
    bool wide = op.dtype == Dtype::f64;
    std::string found = dispatch_element(op.dtype, [&](auto element) -> std::string {
      using E = decltype(element);
      double largest = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t i = 0; i < op.elements; ++i) {
          typename E::Storage a, b;
          std::memcpy(&a, &got.data[o][size_t(i) * sizeof a], sizeof a);
          std::memcpy(&b, &expected.data[o][size_t(i) * sizeof b], sizeof b);
          if constexpr (E::kIsComplex) {
            return "";
          } else {
            auto x = E::load(a), y = E::load(b);
            if (pass == 0) {
              if (std::isfinite(double(y))) largest = std::max(largest, std::fabs(double(y)));
              continue;
            }
            bool close = std::memcmp(&a, &b, sizeof a) == 0;
            if constexpr (E::kIsFloating) {
              close |= ulps_between(x, y, wide) <= ulps || std::fabs(x - y) <= relative * largest;
            }
            if (!close) return cat("@", o, "[", i, "] is ", double(x), ", expected ", double(y));
          }
        }
      }
      return "";
    });
    if (!found.empty()) return found;
    size_t end = got.data[o].size() - 8;
    if (std::memcmp(&got.data[o][end], &expected.data[o][end], 8) != 0) return cat("@", o, ": written past its end");
  }
  return "";
}

std::string check_program(const LoopProgram& p, uint64_t seed, const host::LoopOptions& options, double ulps,
                          double relative, bool special) {
  auto kernel = host::prepare(p, options);
  if (!kernel) return kernel.error().message;
  LoopBuffers got = random_buffers(p, seed, special), expected = got;
  host::run(*kernel, got.pointers());
  evaluate(p, expected.pointers());
  return difference(p, got, expected, ulps, relative);
}

}  // namespace trine::test
