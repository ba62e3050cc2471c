// Shared type rules and index helpers.
#include "ops/shape.h"

#include <algorithm>
#include <cstring>

namespace trine::ops {

Inferred one_type(Dtype dtype, Dims dims) { return std::vector<ir::Type>{ir::tensor_type(dtype, std::move(dims))}; }

Inferred same_as_first(const Call& call) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an input");
  if (call.inputs[0].is_token) return fail(Code::invalid, "takes tensors, no tokens");
  return one_type(call.inputs[0].dtype, call.inputs[0].dims);
}

Inferred same_as_all(const Call& call) {
  for (const ir::Type& t : call.inputs)
    if (!ir::same_tensor(t, call.inputs[0]))
      return fail(Code::invalid, cat("inputs differ: ", ir::text(call.inputs[0]), " and ", ir::text(t)));
  return same_as_first(call);
}

Inferred as_declared(const Call& call) {
  if (call.declared.empty()) return fail(Code::invalid, "its result types must be given");
  return std::vector<ir::Type>(call.declared.begin(), call.declared.end());
}

Inferred elements_as_declared(const Call& call) {
  if (call.inputs.empty() || call.declared.size() != 1) return fail(Code::invalid, "needs an input and one result");
  if (call.inputs[0].dims != call.declared[0].dims)
    return fail(Code::invalid,
                cat("dims of ", ir::text(call.inputs[0]), " and ", ir::text(call.declared[0]), " differ"));
  return std::vector<ir::Type>{call.declared[0]};
}

Result<int64_t> need_dim(const Call& call, std::string_view name, int rank) {
  const ir::Attr* found = call.attrs.find(name);
  const int64_t* dim = found ? std::get_if<int64_t>(found) : nullptr;
  if (!dim) return fail(Code::invalid, cat("needs the integer `", name, "`"));
  if (*dim < 0 || *dim >= rank) return fail(Code::invalid, cat(name, " ", *dim, " is out of range for rank ", rank));
  return *dim;
}

Result<Dims> need_ints(const Call& call, std::string_view name, int count) {
  const ir::Ints& ints = call.attrs.ints(name);
  if (int(ints.size()) != count) return fail(Code::invalid, cat(name, " has ", ints.size(), " of ", count, " numbers"));
  return ints;
}

Result<void> check_starts(std::span<const ir::Type> starts, int rank) {
  if (int(starts.size()) != rank) return fail(Code::invalid, cat(starts.size(), " starts for rank ", rank));
  for (const ir::Type& t : starts)
    if (t.is_token || t.rank() != 0 || t.dtype != starts[0].dtype || !is_integer(t.dtype))
      return fail(Code::invalid, cat("a start is ", ir::text(t), "; expected integer scalars of one dtype"));
  return {};
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

void copy_walk(const Dims& dims, const Walk& to, const Walk& from) {
  dispatch_element(to.of.dtype, [&](auto element) {
    using Storage = typename decltype(element)::Storage;
    auto* out = to.of.as<Storage>() + to.base;
    const auto* in = from.of.as<const Storage>() + from.base;
    if (dims.empty()) {
      *out = *in;
      return;
    }
    // The last dim is the inner loop; the others are stepped as an index.
    const Dims outer(dims.begin(), dims.end() - 1);
    const int64_t n = dims.back(), step_out = to.strides.back(), step_in = from.strides.back();
    for_each_index(outer, [&](const Dims& index, int64_t) {
      Storage* o = out + offset_of(index, to.strides);
      const Storage* p = in + offset_of(index, from.strides);
      if (step_out == 1 && step_in == 1) {
        std::copy_n(p, n, o);
      } else {
        for (int64_t i = 0; i < n; ++i) o[i * step_out] = p[i * step_in];
      }
    });
  });
}

int64_t integer_at(const TensorView& t, int64_t at) {
  return dispatch_element(t.dtype, [&](auto element) -> int64_t {
    using E = decltype(element);
    if constexpr (E::kIsInteger) {
      const auto value = t.as<const typename E::Storage>()[at];
      return std::in_range<int64_t>(value) ? int64_t(value) : INT64_MAX;
    } else {
      CHECK(false, "an index is an integer");
      return 0;
    }
  });
}

Dims clamped_starts(std::span<const TensorView> scalars, const Dims& dims, const Dims& sizes) {
  Dims starts;
  for (size_t d = 0; d < dims.size(); ++d)
    starts.push_back(std::clamp<int64_t>(integer_at(scalars[d]), 0, dims[d] - sizes[d]));
  return starts;
}

}  // namespace trine::ops
