// Names of ops to and from their numbers. The table of names is written by the build.
#include "ir/op_id.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/op_ids.h"

namespace trine::ir {

std::span<const std::string_view> op_id_names();  // by number; those from the third on sorted

std::optional<OpId> OpId::find(std::string_view name) {
  const auto names = op_id_names();
  const auto ops = names.subspan(op::parameter.index + 1);
  const auto at = std::lower_bound(ops.begin(), ops.end(), name);
  if (at != ops.end() && *at == name) return OpId{uint16_t(op::parameter.index + 1 + (at - ops.begin()))};
  return name == op::parameter.name() ? std::optional(op::parameter) : std::nullopt;
}

OpId op_named(std::string_view name) {
  const auto found = OpId::find(name);
  CHECK(found, "the name of an op");
  return *found;
}

std::string unknown_op(std::string_view name) {
  const auto ops = op_id_names().subspan(op::parameter.index + 1);
  const std::vector<std::string> names(ops.begin(), ops.end());
  return cat("there is no op `", name, "`; near: ", join(nearest(name, names), ", "));
}

std::string_view OpId::name() const { return op_id_names()[index]; }

}  // namespace trine::ir
