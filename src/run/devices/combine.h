// Elements of equally long inputs, one from each member of a collective, combined in the order of a schedule.
// Not where inputs are or results go (collective.h, transport/): those are pointers and a function here.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/number/number.h"
#include "run/devices/sum_order.h"

namespace trine::run {

enum class Fold : uint8_t { add, multiply, maximum, minimum, logical_and, logical_or, logical_xor, count };
std::string_view name(Fold how);
std::optional<Fold> fold_by_name(std::string_view name);
bool can_fold(Fold how, Dtype dtype);  // bits of floats cannot be combined, nor complex numbers compared

struct Combine {
  Fold how = Fold::add;
  double scale = 1;     // each input times this first
  int64_t divisor = 1;  // the result through this
};

constexpr int64_t kSumElements = 4096;  // in all buffers of a sum: they stay in L1

// The piece of an order that an element is in, and how many elements from it on still are.
struct Run {
  int64_t piece = 0, count = 0;
};
Run run_at(int64_t element, int64_t elements, int64_t parts);  // of a buffer cut evenly

struct Elements {
  int64_t begin = 0, end = 0;
};
using WhereIs = std::function<Run(int64_t element)>;
using Put = std::function<void(int64_t element, const std::byte* values, int64_t count)>;

// Combines elements [begin, end) and hands each finished run to `put`. Inputs are those of element 0. Sums of narrow
// floats are taken in f32 and rounded once.
void combine(Dtype dtype, const Combine& what, std::span<const std::byte* const> inputs, const SumOrder& order,
             Elements elements, const WhereIs& where, const Put& put);

}  // namespace trine::run
