// What type rules and meanings share about shapes: checks with their messages, and walking an index space.
#pragma once

#include <span>
#include <string_view>

#include "base/text.h"
#include "ops/op.h"

namespace trine::ops {

// Type rules used by many ops.
Result<std::vector<ir::Type>> same_as_first(const Call& call);         // the first input's type
Result<std::vector<ir::Type>> same_as_all(const Call& call);           // all inputs alike; their type
Result<std::vector<ir::Type>> as_declared(const Call& call);           // whatever is declared
Result<std::vector<ir::Type>> elements_as_declared(const Call& call);  // one result, the first input's dims

// Steps `index` to the next of `dims` in row-major order; false after the last.
inline bool next_index(Dims& index, const Dims& dims) {
  for (size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

inline int64_t offset_of(const Dims& index, const Dims& strides) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  return at;
}

// Calls f(index, row-major offset) for every index of dims; not at all where one is zero.
template <class F>
void for_each_index(const Dims& dims, F&& f) {
  if (element_count(dims) == 0) return;
  Dims index(dims.size(), 0);
  int64_t at = 0;
  do f(static_cast<const Dims&>(index), at++);
  while (next_index(index, dims));
}

bool is_permutation(std::span<const int64_t> dims, int rank);

// Copies one element between tensors of one dtype, of `size` bytes.
void copy_element(const TensorView& to, int64_t to_at, const TensorView& from, int64_t from_at);
// Copies `count` neighbours.
void copy_run(const TensorView& to, int64_t to_at, const TensorView& from, int64_t from_at, int64_t count);

}  // namespace trine::ops
