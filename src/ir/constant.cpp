// Looked at, never changed.
#include "ir/constant.h"

#include "base/number/scalar.h"

#include "ir/op_ids.h"

namespace trine::ir {

const Tensor* constant_of(const Node& node) { return node.op == op::constant ? node.attrs.tensor("value") : nullptr; }

static bool repeats(const Node& node) { return node.op == op::broadcast_in_dim || node.op == op::reshape; }

const Tensor* splat_of(Value value) {
  while (repeats(*value.node)) value = value.node->inputs[0];
  const Tensor* t = constant_of(value);
  return t && is_splat(*t) ? t : nullptr;
}

std::optional<double> splat(const Value& value) {
  const Tensor* t = splat_of(value);
  if (!t || is_complex(t->dtype)) return std::nullopt;
  return number(*t);
}

std::optional<double> splat_as_written(Value value) {
  while (repeats(*value.node) || value.node->op == op::convert) value = value.node->inputs[0];
  return splat(value);
}

}  // namespace trine::ir
