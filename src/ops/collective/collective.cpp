// Type rules and the one-device meaning of collectives.
#include "ops/collective/collective.h"

namespace trine::ops {

int64_t group_size(const ir::Attrs& attrs) { return std::max<int64_t>(attrs.integer("group_size", 1), 1); }

Result<std::vector<ir::Type>> collective_types(const Call& call, int64_t axis, int64_t times, int64_t parts) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an input");
  std::vector<ir::Type> types;
  for (const ir::Type& t : call.inputs) {
    if (axis < 0 || axis >= t.rank())
      return fail(Code::invalid, cat("dim ", axis, " is out of range for ", ir::text(t)));
    Dims dims = t.dims;
    int64_t& dim = dims[size_t(axis)];
    if (times < 1 || parts < 1 || __builtin_mul_overflow(dim, times, &dim) || dim % parts)
      return fail(Code::invalid, cat("dim ", axis, " of ", ir::text(t), " does not divide into ", parts, " parts"));
    dim /= parts;
    types.push_back(ir::tensor_type(t.dtype, std::move(dims)));
  }
  return types;
}

Result<std::vector<ir::Type>> same_as_inputs(const Call& call) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an input");
  std::vector<ir::Type> types;
  for (const ir::Type& t : call.inputs) types.push_back(ir::tensor_type(t.dtype, t.dims));
  return types;
}

Result<std::vector<ir::Type>> part_type(const Call& call) {
  if (call.declared.size() != 1 || call.declared[0].rank() != call.inputs[0].rank())
    return fail(Code::invalid, "its result type must be given, of the input's rank");
  return std::vector<ir::Type>{ir::tensor_type(call.inputs[0].dtype, call.declared[0].dims)};
}
Result<void> not_partitioned(const Eval&) {
  return fail(Code::unsupported, "a program for several devices that has not been partitioned");
}

Result<std::vector<ir::Type>> device_number_type(const Call&) {
  return std::vector<ir::Type>{ir::tensor_type(Dtype::u32, {})};
}
Result<void> number_alone(const Eval& e) {
  *e.out[0].as<uint32_t>() = 0;
  return {};
}

Result<void> copy_alone(const Eval& e) {
  for (size_t i = 0; i < e.out.size(); ++i) {
    if (group_size(e.node.attrs) > 1 || e.in[i].elements() != e.out[i].elements())
      return fail(Code::unsupported,
                  cat(e.node.op, " over ", group_size(e.node.attrs), " devices; this program runs on one"));
    copy_run(e.out[i], 0, e.in[i], 0, e.in[i].elements());
  }
  return {};
}

}  // namespace trine::ops
