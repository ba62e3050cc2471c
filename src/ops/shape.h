// What type rules and meanings share about shapes: checks with their messages, and walking an index space.
#pragma once

#include <span>
#include <string_view>

#include "base/text.h"
#include "ops/op.h"

namespace trine::ops {

using Inferred = Result<std::vector<ir::Type>>;
Inferred one_type(Dtype dtype, Dims dims);

// Type rules used by many ops.
Inferred same_as_first(const Call& call);         // the first input's type
Inferred same_as_all(const Call& call);           // all inputs alike; their type
Inferred as_declared(const Call& call);           // whatever is declared
Inferred elements_as_declared(const Call& call);  // one result, the first input's dims

// Attributes that must be there.
Result<int64_t> need_dim(const Call& call, std::string_view name, int rank);  // an integer in 0..rank-1
Result<Dims> need_ints(const Call& call, std::string_view name, int count);

// Start indices: one integer scalar per dim, all of one dtype.
Result<void> check_starts(std::span<const ir::Type> starts, int rank);

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

// A way through a tensor: the element it begins at and how many elements each dim of the walk steps; 0 repeats.
struct Walk {
  const TensorView& of;
  int64_t base = 0;
  Dims strides = {};
};
inline Walk whole(const TensorView& t) { return {t, 0, row_major_strides(t.dims)}; }
// to[index] = from[index] for every index of dims; both are of one dtype and inside their tensors.
void copy_walk(const Dims& dims, const Walk& to, const Walk& from);

// The value of an integer scalar; unsigned ones past int64 are its largest.
int64_t integer_at(const TensorView& t, int64_t at = 0);
// The start of a window of `sizes` given by index scalars, moved to lie inside `dims`.
Dims clamped_starts(std::span<const TensorView> scalars, const Dims& dims, const Dims& sizes);

}  // namespace trine::ops
