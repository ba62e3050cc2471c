// An attention's step: its operands where they lie, or copied where heads are not evenly apart.
#include "compile/host/plan_builder.h"

namespace trine::compile {

using arch::SlotId;

namespace {

int64_t stride_at(const std::vector<int64_t>& strides, int dim) { return dim < 0 ? 0 : strides[size_t(dim)]; }

}  // namespace

// every_head: it has all heads, not those of keys alone. `last` of a bias is the dim of keys, which is its `dim` here;
// everyone else's `position` is a query or a key.
SlotId PlanBuilder::attention_operand(const AttentionMatch& match, const AttentionOperand& operand, bool every_head,
                                      arch::AttentionStep::View& view) {
  // The operand over the weights' dims, and its last.
  DotOperand from = walked(operand.value);
  std::vector<int64_t> strides(match.space.size() + 1, 0);
  for (size_t d = 0; d < match.space.size(); ++d)
    if (operand.dims[d] >= 0 && match.space[d] > 1) strides[d] = from.walk.strides[size_t(operand.dims[d])];
  Dims dims = match.space;
  dims.push_back(operand.last < 0 ? 1 : operand.value.type().dims[size_t(operand.last)]);
  strides.back() = stride_at(from.walk.strides, operand.last);
  from.walk.strides = strides;
  const AttentionDims& at = match.at;
  SlotId slot = slot_of(from.memory);
  auto stride = [&](int d) { return stride_at(from.walk.strides, d); };
  const int64_t shared = at.shared < 0 ? 1 : match.space[size_t(at.shared)];
  if (every_head && at.shared >= 0 && at.kv >= 0 && stride(at.kv) != shared * stride(at.shared)) {
    std::vector<int64_t> order;
    for (int d : {at.batch, at.kv, at.shared, at.query, at.key, int(match.space.size())})
      if (d >= 0 && (d == at.kv || d == at.shared || stride(d) != 0)) order.push_back(d);
    slot = copy_dense(from, dims, order);
    Dims moved;
    for (int64_t d : order) moved.push_back(dims[size_t(d)]);
    const Dims dense = row_major_strides(moved);
    from.walk = {0, std::vector<int64_t>(dims.size(), 0)};
    for (size_t i = 0; i < order.size(); ++i) from.walk.strides[size_t(order[i])] = dense[i];
  }
  const bool has_query = stride(at.query) != 0;
  view = {from.walk.offset, stride(at.batch), every_head && at.shared >= 0 ? stride(at.shared) : stride(at.kv),
          has_query ? stride(at.query) : stride(at.key), from.walk.strides.back()};
  return slot;
}

arch::Step PlanBuilder::attention_step(const AttentionMatch& match) {
  arch::AttentionStep step = match.step;
  const AttentionDims& at = match.at;
  arch::Step out;
  out.in = {attention_operand(match, match.q, true, step.q), attention_operand(match, match.k, false, step.k),
            attention_operand(match, match.v, false, step.v)};
  if (match.bias) {
    step.has_bias = true;
    AttentionOperand bias = *match.bias;
    bias.last = bias.dims[size_t(at.key)];
    bias.dims[size_t(at.key)] = -1;
    out.in.push_back(attention_operand(match, bias, true, step.bias));
  }
  auto patch = [&](const AttentionOperand& o, arch::AttentionStep::Patch& to, int64_t& positions) {
    if (!o.patch.node) return;
    const size_t key = size_t(o.dims[size_t(at.key)]);
    to.count = o.patch.type().dims[key];
    positions = o.value.type().dims[key];
    AttentionOperand part = o;
    part.value = o.patch;
    out.in.push_back(attention_operand(match, part, false, to.view));
    out.in.push_back(slot_of(o.start));
  };
  patch(match.k, step.k_patch, step.k_positions);
  patch(match.v, step.v_patch, step.v_positions);
  const Dims strides = row_major_strides(match.out.value.type().dims);
  auto stride = [&](int d) { return d < 0 ? 0 : stride_at(strides, match.out.dims[size_t(d)]); };
  step.out = {0, stride(at.batch), at.shared >= 0 ? stride(at.shared) : stride(at.kv), stride(at.query),
              stride_at(strides, match.out.last)};
  out.out = {slot_of(match.out.value)};
  out.what = step;
  return out;
}

}  // namespace trine::compile
