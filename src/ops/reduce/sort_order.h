// What a comparator of sort means, where it is a plain one: keys in order of weight, each ascending or descending.
// JAX's comparators (zeros and NaNs made alike, then a total order, several keys) are recognised from their region.
#pragma once

#include <optional>

#include "ops/evaluate.h"

namespace trine::ops {

enum class KeyPart : uint8_t { whole, real, imaginary };

struct SortKey {
  size_t operand = 0;
  KeyPart part = KeyPart::whole;
  bool is_descending = false;
  bool is_total = false;      // a total order of floats: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN
  bool merges_zeros = false;  // -0 is 0
  bool merges_nans = false;   // every NaN is the one above inf
};

// From the region, or from the attributes direction and compare_type where there is none; nothing where it is no
// such order, or one with NaNs that are not ordered.
std::optional<std::vector<SortKey>> sort_order(const ir::Node& node);

// One number per element whose unsigned order is the key's.
std::vector<uint64_t> sort_keys(const SortKey& key, const TensorView& x);

}  // namespace trine::ops
