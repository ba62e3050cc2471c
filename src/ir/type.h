// The type of a value: a tensor of a dtype and static dims, with an optional layout and sharding, or a token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/tensor.h"

namespace trine::ir {

struct Type {
  Dtype dtype = Dtype::f32;
  Dims dims = {};
  Dims layout = {};           // dims from minor to major; empty: row-major
  std::string sharding = {};  // as Shardy writes it; empty: none given
  bool is_token = false;      // orders effects, holds nothing

  bool operator==(const Type&) const = default;
  int64_t elements() const { return element_count(dims); }
  int rank() const { return int(dims.size()); }
};

inline Type tensor_type(Dtype dtype, Dims dims) { return {.dtype = dtype, .dims = std::move(dims)}; }
inline Type token_type() { return {.is_token = true}; }
// Ignores layout and sharding: whether two types hold the same values.
inline bool same_tensor(const Type& a, const Type& b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.is_token == b.is_token;
}

// No dim is negative, and the bytes can be counted: below 64 TiB.
bool is_countable(const Type& type);

std::string text(const Type& type);      // "f32[2,3]", "f32[2,3]{0,1}", "token"
std::string quoted(std::string_view s);  // as the text form writes strings
size_t hash(const Type& type);

}  // namespace trine::ir
