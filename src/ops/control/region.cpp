// Checks of regions against the node that holds them.
#include "ops/control/region.h"

#include <cstring>

namespace trine::ops {

static Result<void> check_values(std::span<const ir::Value> values, std::span<const ir::Type> expected,
                                 std::string_view what) {
  if (values.size() != expected.size())
    return fail(Code::invalid, cat(what, " ", values.size(), " values; expected ", expected.size()));
  for (size_t i = 0; i < values.size(); ++i)
    if (!ir::same_tensor(values[i].type(), expected[i]))
      return fail(Code::invalid,
                  cat(what, " ", ir::text(values[i].type()), " at ", i, "; expected ", ir::text(expected[i])));
  return {};
}

Result<void> check_params(const ir::Region& region, std::span<const ir::Type> expected, std::string_view what) {
  return check_values(region.params, expected, cat(what, " takes"));
}

Result<void> check_results(const ir::Region& region, std::span<const ir::Type> expected, std::string_view what) {
  return check_values(region.results, expected, cat(what, " gives"));
}

std::vector<ir::Type> result_types(const ir::Region& region) {
  std::vector<ir::Type> types;
  for (const ir::Value& v : region.results) types.push_back(v.type());
  return types;
}

Inferred plain_types(std::span<const ir::Type> types) {
  std::vector<ir::Type> plain;
  for (const ir::Type& t : types) plain.push_back(t.is_token ? ir::token_type() : ir::tensor_type(t.dtype, t.dims));
  return plain;
}

std::vector<Tensor> owned(std::span<const TensorView> views, std::span<const ir::Type> types) {
  std::vector<Tensor> tensors(views.size());
  for (size_t i = 0; i < views.size(); ++i) {
    if (types[i].is_token) continue;
    tensors[i] = Tensor::make(views[i].dtype, views[i].dims);
    std::memcpy(tensors[i].data.get(), views[i].data, views[i].bytes());
  }
  return tensors;
}

void put_results(const Eval& e, std::span<const Tensor> results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (!e.node.types[i].is_token) std::memcpy(e.out[i].data, results[i].data.get(), e.out[i].bytes());
}

}  // namespace trine::ops
