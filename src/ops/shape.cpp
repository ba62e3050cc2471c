// Shared type rules and index helpers.
#include "ops/shape.h"

#include <cstring>

namespace trine::ops {

Result<std::vector<ir::Type>> same_as_first(const Call& call) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an input");
  ir::Type t = call.inputs[0];
  return std::vector<ir::Type>{ir::tensor_type(t.dtype, t.dims)};
}

Result<std::vector<ir::Type>> same_as_all(const Call& call) {
  for (const ir::Type& t : call.inputs)
    if (!ir::same_tensor(t, call.inputs[0]))
      return fail(Code::invalid, cat("inputs differ: ", ir::text(call.inputs[0]), " and ", ir::text(t)));
  return same_as_first(call);
}

Result<std::vector<ir::Type>> as_declared(const Call& call) {
  if (call.declared.empty()) return fail(Code::invalid, "its result types must be given");
  return std::vector<ir::Type>(call.declared.begin(), call.declared.end());
}

Result<std::vector<ir::Type>> elements_as_declared(const Call& call) {
  if (call.inputs.empty() || call.declared.size() != 1) return fail(Code::invalid, "needs an input and one result");
  if (call.inputs[0].dims != call.declared[0].dims)
    return fail(Code::invalid,
                cat("dims of ", ir::text(call.inputs[0]), " and ", ir::text(call.declared[0]), " differ"));
  return std::vector<ir::Type>{call.declared[0]};
}

bool is_permutation(std::span<const int64_t> dims, int rank) {
  if (int(dims.size()) != rank) return false;
  std::vector<bool> seen(dims.size());
  for (int64_t d : dims) {
    if (d < 0 || d >= rank || seen[size_t(d)]) return false;
    seen[size_t(d)] = true;
  }
  return true;
}

void copy_element(const TensorView& to, int64_t to_at, const TensorView& from, int64_t from_at) {
  const size_t size = size_t(bytes(to.dtype));
  std::memcpy(to.as<std::byte>() + size_t(to_at) * size, from.as<std::byte>() + size_t(from_at) * size, size);
}

void copy_run(const TensorView& to, int64_t to_at, const TensorView& from, int64_t from_at, int64_t count) {
  const size_t size = size_t(bytes(to.dtype));
  std::memcpy(to.as<std::byte>() + size_t(to_at) * size, from.as<std::byte>() + size_t(from_at) * size,
              size_t(count) * size);
}

}  // namespace trine::ops
