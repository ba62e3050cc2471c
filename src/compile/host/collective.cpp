// Which ops are collectives, and what their steps are told. A reduction must be one of the plain kinds.
#include "compile/host/collective.h"

#include <algorithm>

#include "base/text.h"
#include "ir/op_ids.h"

namespace trine::compile {

using arch::CollectiveKind;

namespace {

struct Row {
  ir::OpId op;
  CollectiveKind kind;
  std::string_view dim = {}, other_dim = {};
};

constexpr Row kRows[] = {
    {op::all_gather, CollectiveKind::all_gather, "all_gather_dim"},
    {op::all_reduce, CollectiveKind::all_reduce},
    {op::all_to_all, CollectiveKind::all_to_all, "split_dimension", "concat_dimension"},
    {op::collective_broadcast, CollectiveKind::broadcast},
    {op::collective_permute, CollectiveKind::permute},
    {op::partition_id, CollectiveKind::partition_id},
    {op::reduce_scatter, CollectiveKind::reduce_scatter, "scatter_dimension"},
    {op::replica_id, CollectiveKind::replica_id},
};

const Row* row_of(ir::OpId op) {
  auto at = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == op; });
  return at == std::end(kRows) ? nullptr : at;
}

}  // namespace

bool is_collective(const ir::Node& node) { return row_of(node.op) != nullptr; }

Result<arch::CollectiveStep> collective_step(const ir::Node& node) {
  const Row& row = *row_of(node.op);
  arch::CollectiveStep step{.kind = row.kind,
                            .reduction = std::string(node.attrs.text("kind")),
                            .dim = node.attrs.integer(row.dim),
                            .other_dim = node.attrs.integer(row.other_dim),
                            .split_count = node.attrs.integer("split_count", 1),
                            .channel = node.attrs.integer("channel_id"),
                            .is_global = node.attrs.flag("use_global_device_ids")};
  const bool reduces = row.kind == CollectiveKind::all_reduce || row.kind == CollectiveKind::reduce_scatter;
  if (reduces && step.reduction.empty())
    return fail(Code::unsupported, cat(node.op,
                                       " reduces by a computation of its own; add, multiply, maximum, minimum, "
                                       "and, or and xor are known"));
  const ir::Ints& groups = node.attrs.ints("replica_groups");
  const size_t size = size_t(std::max<int64_t>(1, node.attrs.integer("group_size", 1)));
  for (size_t i = 0; i < groups.size(); i += size) {
    std::vector<int64_t> group;
    for (size_t j = i; j < std::min(i + size, groups.size()); ++j)
      if (groups[j] >= 0) group.push_back(groups[j]);
    step.groups.push_back(std::move(group));
  }
  const ir::Ints& pairs = node.attrs.ints("source_target_pairs");
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) step.pairs.emplace_back(pairs[i], pairs[i + 1]);
  return step;
}

}  // namespace trine::compile
