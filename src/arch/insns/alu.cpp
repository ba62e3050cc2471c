// One row per operator; each loop is stamped out from the operator's one line. See alu.h.
#include "arch/insns/alu.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/result.h"

namespace trine::arch {

namespace {

template <class T, auto kOp>
constexpr AluRow<T> loops() {
  return {.one = [](T a, T b) -> T { return kOp(a, b); },
          .tiles =
              [](const T* a, const T* b, T* out, int64_t n) {
                for (int64_t i = 0; i < n; ++i) out[i] = kOp(a[i], b[i]);
              },
          .scalar =
              [](const T* a, T b, T* out, int64_t n) {
                for (int64_t i = 0; i < n; ++i) out[i] = kOp(a[i], b);
              },
          .reversed =
              [](const T* a, T b, T* out, int64_t n) {
                for (int64_t i = 0; i < n; ++i) out[i] = kOp(b, a[i]);
              },
          .fold =
              [](T start, const T* a, int64_t n) {
                for (int64_t i = 0; i < n; ++i) start = kOp(start, a[i]);
                return start;
              }};
}

// One operand: the data, whichever side it stands on. A fold takes the newest element.
template <class T, auto kOp>
constexpr AluRow<T> unary() {
  AluRow<T> row = loops<T, [](T a, T) -> T { return kOp(a); }>();
  row.reversed = row.scalar;
  return row;
}

// estimate: max and min pass a NaN on from either side, as NumPy's maximum does; of two zeros they take b.
constexpr auto kMax = [](auto a, auto b) { return a > b || a != a ? a : b; };
constexpr auto kMin = [](auto a, auto b) { return a < b || a != a ? a : b; };
// The same result as the plain fold, sixteen at a time: without NaN the extreme does not depend on order, except for
// which zero it is.
template <auto kOp, auto kBeats>
float fold_extreme(float start, const float* a, int64_t n) {
  using Four = float __attribute__((vector_size(16)));
  using Flags = int32_t __attribute__((vector_size(16)));
  Four best[4];
  for (Four& b : best) b = Four{start, start, start, start};
  Flags nan{};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 4; ++l) {
      Four x;
      std::memcpy(&x, a + i + 4 * l, sizeof x);
      nan |= x != x;
      best[l] = kBeats(x, best[l]) ? x : best[l];
    }
  float found = start;
  for (const Four& b : best)
    for (int l = 0; l < 4; ++l) found = kOp(b[l], found);
  const bool any_nan = start != start || nan[0] || nan[1] || nan[2] || nan[3];
  if (any_nan || found == 0) return loops<float, kOp>().fold(start, a, n);
  return loops<float, kOp>().fold(found, a + i, n - i);
}

template <auto kOp, auto kBeats>
constexpr AluRow<float> extreme() {
  AluRow<float> row = loops<float, kOp>();
  row.fold = fold_extreme<kOp, kBeats>;
  return row;
}

constexpr auto kAbs = [](float a) { return __builtin_fabsf(a); };

constexpr AluRow<float> kF32[] = {
    unary<float, [](float a) { return a; }>(),
    loops<float, [](float a, float b) { return a + b; }>(),
    loops<float, [](float a, float b) { return a - b; }>(),
    loops<float, [](float a, float b) { return a * b; }>(),
    extreme<kMax, [](auto a, auto b) { return (a > b); }>(),
    extreme<kMin, [](auto a, auto b) { return (a < b); }>(),
    loops<float, [](float a, float b) { return float(a == b); }>(),
    loops<float, [](float a, float b) { return float(a != b); }>(),
    loops<float, [](float a, float b) { return float(a >= b); }>(),
    loops<float, [](float a, float b) { return float(a > b); }>(),
    loops<float, [](float a, float b) { return float(a <= b); }>(),
    loops<float, [](float a, float b) { return float(a < b); }>(),
    loops<float, [](float a, float b) { return float((a != 0) & (b != 0)); }>(),
    loops<float, [](float a, float b) { return float((a != 0) | (b != 0)); }>(),
    loops<float, [](float a, float b) { return float((a != 0) ^ (b != 0)); }>(),
    loops<float, [](float a, float b) { return std::pow(a, b); }>(),
    // the operand of the larger or smaller magnitude, with its sign; b when they are equal (nki.language.abs_max)
    loops<float, [](float a, float b) { return (kAbs(a) > kAbs(b)) || a != a ? a : b; }>(),
    loops<float, [](float a, float b) { return (kAbs(a) < kAbs(b)) || a != a ? a : b; }>(),
    unary<float, kAbs>(),
    unary<float, [](float a) { return a * a; }>(),
    unary<float, [](float a) { return (a > 0 || a != a) ? a : 0.0f; }>(),
    unary<float, [](float a) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))); }>(),
    unary<float, [](float a) { return 1.0f / a; }>(),
    loops<float, [](float a, float b) { return a + b; }>(),  // average: the caller divides at the end
};
static_assert(std::size(kF32) == static_cast<size_t>(Alu::bitwise_invert));

// estimate: a shift by 32 or more leaves zero.
constexpr AluRow<uint32_t> kBits[] = {
    unary<uint32_t, [](uint32_t a) { return ~a; }>(),
    loops<uint32_t, [](uint32_t a, uint32_t b) { return a & b; }>(),
    loops<uint32_t, [](uint32_t a, uint32_t b) { return a | b; }>(),
    loops<uint32_t, [](uint32_t a, uint32_t b) { return a ^ b; }>(),
    loops<uint32_t, [](uint32_t a, uint32_t b) { return b < 32 ? a << b : 0; }>(),
    loops<uint32_t, [](uint32_t a, uint32_t b) { return b < 32 ? (a >> b) : 0; }>(),
};
constexpr AluRow<uint32_t> kBitsBypass = unary<uint32_t, [](uint32_t a) { return a; }>();

// Through uint64_t, where wrapping is defined.
constexpr AluRow<int64_t> kInt[] = {
    unary<int64_t, [](int64_t a) { return a; }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return (a > b) ? a : b; }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return (a < b) ? a : b; }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(a == b); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(a != b); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(a >= b); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(a > b); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(a <= b); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t(a < b); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t((a != 0) & (b != 0)); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t((a != 0) | (b != 0)); }>(),
    loops<int64_t, [](int64_t a, int64_t b) { return int64_t((a != 0) ^ (b != 0)); }>(),
};
static_assert(std::size(kInt) == static_cast<size_t>(Alu::logical_xor) + 1);

}  // namespace

const AluRow<float>& alu_f32(Alu op) {
  CHECK(!is_bitvec(op), "arithmetic where the row's check saw arithmetic");
  return kF32[static_cast<size_t>(op)];
}

const AluRow<uint32_t>& alu_bits(Alu op) {
  if (op == Alu::bypass) return kBitsBypass;
  CHECK(is_bitvec(op), "a bitwise operator where the row's check saw one");
  return kBits[static_cast<size_t>(op) - static_cast<size_t>(Alu::bitwise_invert)];
}

const AluRow<int64_t>& alu_int(Alu op) {
  CHECK(alu_has_int(op), "an operator that integers have");
  return kInt[static_cast<size_t>(op)];
}

bool alu_has_int(Alu op) { return op <= Alu::logical_xor; }

bool alu_is_unary(Alu op) {
  return op == Alu::bypass || (op >= Alu::abs && op <= Alu::reciprocal) || op == Alu::bitwise_invert;
}

static bool is_logical(Alu op) { return op >= Alu::logical_and && op <= Alu::logical_xor; }

bool alu_can_reduce(Alu op) {
  return (op >= Alu::add && op <= Alu::min) || is_logical(op) || (op >= Alu::bitwise_and && op <= Alu::bitwise_xor);
}

float alu_identity(Alu op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (op == Alu::max) return -kInfinity;
  if (op == Alu::min || op == Alu::abs_min) return kInfinity;
  return op == Alu::multiply || op == Alu::logical_and ? 1 : 0;
}

void RowFolds::add(float* result, const float* row) {
  results_[held_] = result;
  if (n_) std::memcpy(rows_.data() + held_ * static_cast<size_t>(n_), row, static_cast<size_t>(n_) * sizeof(float));
  if (++held_ == kSideBySide) flush();
}

void RowFolds::flush() {
  if (op_ == Alu::add && held_ == kSideBySide) {
    const float* const a = rows_.data();
    std::array<float, kSideBySide> sums;
    for (size_t k = 0; k < kSideBySide; ++k) sums[k] = *results_[k];
    for (int64_t i = 0; i < n_; ++i)
      for (size_t k = 0; k < kSideBySide; ++k) sums[k] += a[static_cast<int64_t>(k) * n_ + i];
    for (size_t k = 0; k < kSideBySide; ++k) *results_[k] = sums[k];
  } else {
    for (size_t k = 0; k < held_; ++k)
      *results_[k] = alu_f32(op_).fold(*results_[k], rows_.data() + k * static_cast<size_t>(n_), n_);
  }
  held_ = 0;
}

float alu_fold_first(Alu op, float first) { return is_logical(op) ? float(first != 0) : first; }

}  // namespace trine::arch
