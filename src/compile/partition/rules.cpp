// One function per kind of op, in a table by name. Dims keep their order unless said otherwise.
#include "compile/partition/rules.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "compile/host/native.h"
#include "ir/op_ids.h"
#include "ops/custom_call.h"
#include "ops/identity.h"
#include "ops/op.h"

namespace trine::compile {

int OpRule::add(int64_t size, std::string reduction) {
  factors.push_back({size, std::move(reduction)});
  return int(factors.size() - 1);
}

int OpRule::carry(int64_t size) {
  factors.push_back({.size = size, .is_carried = true});
  return int(factors.size() - 1);
}

namespace {

using ir::Node;
using ir::Value;

const Dims& dims_of(const Value& v) { return v.type().dims; }
bool contains(const ir::Ints& list, int64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

OpRule blank(const Node& node) {
  OpRule rule;
  for (const Value& v : node.inputs) rule.inputs.emplace_back(dims_of(v).size(), kWhole);
  for (const ir::Type& t : node.types) rule.results.emplace_back(t.dims.size(), kWhole);
  return rule;
}

// Every value of the result's rank shares all dims that `keep` accepts; others (scalars) have none. The rest is carried
// from the first `carried` inputs.
OpRule alike(const Node& node, const std::function<bool(size_t dim)>& keep, size_t carried = SIZE_MAX) {
  OpRule rule = blank(node);
  const Dims& dims = node.types[0].dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    const size_t count = keep(d) ? rule.inputs.size() : std::min(carried, rule.inputs.size());
    int64_t common = dims[d];
    for (size_t i = 0; i < count; ++i)
      if (rule.inputs[i].size() == dims.size()) common = std::gcd(common, dims_of(node.inputs[i])[d]);
    const int f = keep(d) ? rule.add(dims[d]) : rule.carry(common);
    for (size_t i = 0; i < count; ++i)
      if (rule.inputs[i].size() == dims.size()) rule.inputs[i][d] = f;
    for (auto& result : rule.results)
      if (result.size() == dims.size()) result[d] = f;
  }
  return rule;
}

OpRule elementwise(const Node& node) {
  return alike(node, [](size_t) { return true; });
}

OpRule bitcast(const Node& node) {
  const size_t rank = std::min(dims_of(node.inputs[0]).size(), node.types[0].dims.size());
  OpRule rule = blank(node);
  for (size_t d = 0; d < rank; ++d) rule.inputs[0][d] = rule.results[0][d] = rule.add(node.types[0].dims[d]);
  return rule;
}

OpRule broadcast_in_dim(const Node& node) {
  OpRule rule = blank(node);
  const ir::Ints& to = node.attrs.ints("broadcast_dimensions");
  const Dims &in = dims_of(node.inputs[0]), &out = node.types[0].dims;
  for (size_t d = 0; d < out.size(); ++d) rule.results[0][d] = rule.add(out[d]);
  for (size_t i = 0; i < to.size(); ++i)
    if (in[i] == out[size_t(to[i])]) rule.inputs[0][i] = rule.results[0][size_t(to[i])];
  return rule;
}

OpRule transpose(const Node& node) {
  OpRule rule = blank(node);
  const ir::Ints& from = node.attrs.ints("permutation");
  for (size_t d = 0; d < from.size(); ++d)
    rule.results[0][d] = rule.inputs[0][size_t(from[d])] = rule.add(node.types[0].dims[d]);
  return rule;
}

// Runs of dims with equal products; in each, the outermost dims of both sides are cut alike.
OpRule reshape(const Node& node) {
  OpRule rule = blank(node);
  const Dims &in = dims_of(node.inputs[0]), &out = node.types[0].dims;
  if (element_count(in) == 0) return rule;
  for (size_t i = 0, j = 0; i < in.size() && j < out.size();) {
    const size_t i0 = i, j0 = j;
    int64_t a = in[i++], b = out[j++];
    while (a != b) a < b ? a *= in[i++] : b *= out[j++];
    size_t first = i0, second = j0;
    while (first + 1 < i && in[first] == 1) ++first;
    while (second + 1 < j && out[second] == 1) ++second;
    rule.inputs[0][first] = rule.results[0][second] = rule.add(std::gcd(in[first], out[second]));
  }
  return rule;
}

OpRule dot_general(const Node& node) {
  OpRule rule = blank(node);
  rule.inputs_first = true;
  const ir::Ints &lb = node.attrs.ints("lhs_batch"), &rb = node.attrs.ints("rhs_batch");
  const ir::Ints &lc = node.attrs.ints("lhs_contract"), &rc = node.attrs.ints("rhs_contract");
  size_t at = 0;
  for (size_t i = 0; i < lb.size(); ++i)
    rule.inputs[0][size_t(lb[i])] = rule.inputs[1][size_t(rb[i])] = rule.results[0][at++] =
        rule.add(dims_of(node.inputs[0])[size_t(lb[i])]);
  const auto free_dims = [&](size_t side, const ir::Ints& batch, const ir::Ints& contract) {
    const Dims& dims = dims_of(node.inputs[side]);
    for (size_t d = 0; d < dims.size(); ++d)
      if (!contains(batch, int64_t(d)) && !contains(contract, int64_t(d)))
        rule.inputs[side][d] = rule.results[0][at++] = rule.add(dims[d]);
  };
  free_dims(0, lb, lc);
  free_dims(1, rb, rc);
  for (size_t i = 0; i < lc.size(); ++i)
    rule.inputs[0][size_t(lc[i])] = rule.inputs[1][size_t(rc[i])] =
        rule.add(dims_of(node.inputs[0])[size_t(lc[i])], "add");
  return rule;
}

OpRule convolution(const Node& node) {
  OpRule rule = blank(node);
  rule.inputs_first = true;
  const auto dim = [&](std::string_view name) { return size_t(node.attrs.integer(name)); };
  if (node.attrs.integer("batch_group_count", 1) != 1) return rule;
  rule.inputs[0][dim("input_batch")] = rule.results[0][dim("output_batch")] =
      rule.add(dims_of(node.inputs[0])[dim("input_batch")]);
  if (node.attrs.integer("feature_group_count", 1) != 1) return rule;
  rule.inputs[1][dim("kernel_output_feature")] = rule.results[0][dim("output_feature")] =
      rule.add(node.types[0].dims[dim("output_feature")]);
  rule.inputs[0][dim("input_feature")] = rule.inputs[1][dim("kernel_input_feature")] =
      rule.add(dims_of(node.inputs[0])[dim("input_feature")], "add");
  return rule;
}

OpRule reduce(const Node& node) {
  OpRule rule = blank(node);
  const size_t count = node.inputs.size() / 2;
  const std::string kind(node.attrs.text("kind"));
  const ir::Ints& reduced = node.attrs.ints("dimensions");
  bool can_cut = !kind.empty();
  for (size_t i = 0; i < count; ++i) can_cut = can_cut && ops::is_identity(node.inputs[count + i], kind);
  const Dims& dims = dims_of(node.inputs[0]);
  size_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool is_reduced = contains(reduced, int64_t(d));
    const int f = is_reduced ? (can_cut ? rule.add(dims[d], kind) : kWhole) : rule.add(dims[d]);
    for (size_t i = 0; i < count; ++i) {
      rule.inputs[i][d] = f;
      if (!is_reduced) rule.results[i][at] = f;
    }
    at += !is_reduced;
  }
  return rule;
}

bool all_equal(const Node& node, std::string_view attr, size_t begin, size_t end, int64_t want) {
  const ir::Ints& list = node.attrs.ints(attr);
  for (size_t i = begin; i < end && i < list.size(); ++i)
    if (list[i] != want) return false;
  return true;
}

OpRule windowed(const Node& node) {
  return alike(node, [&](size_t d) {
    return all_equal(node, "window_dimensions", d, d + 1, 1) && all_equal(node, "window_strides", d, d + 1, 1) &&
           all_equal(node, "base_dilations", d, d + 1, 1) && all_equal(node, "padding", 2 * d, 2 * d + 2, 0);
  });
}

OpRule slice(const Node& node) {
  const Dims& dims = dims_of(node.inputs[0]);
  return alike(node, [&](size_t d) {
    return all_equal(node, "start_indices", d, d + 1, 0) && all_equal(node, "strides", d, d + 1, 1) &&
           node.attrs.ints("limit_indices")[d] == dims[d];
  });
}

OpRule pad(const Node& node) {
  return alike(node, [&](size_t d) {
    return all_equal(node, "edge_padding_low", d, d + 1, 0) && all_equal(node, "edge_padding_high", d, d + 1, 0) &&
           all_equal(node, "interior_padding", d, d + 1, 0);
  });
}

OpRule reverse(const Node& node) {
  return alike(node, [&](size_t d) { return !contains(node.attrs.ints("dimensions"), int64_t(d)); });
}

OpRule concatenate(const Node& node) {
  return alike(node, [&](size_t d) { return int64_t(d) != node.attrs.integer("dimension"); });
}

OpRule sort(const Node& node) {
  return alike(node, [&](size_t d) { return int64_t(d) != node.attrs.integer("dimension"); });
}

// All values share the dims of the first input before its last ones.
OpRule batched(const Node& node, size_t last) {
  OpRule rule = blank(node);
  const Dims& dims = dims_of(node.inputs[0]);
  for (size_t d = 0; d + last < dims.size(); ++d) {
    const int f = rule.add(dims[d]);
    for (auto* values : {&rule.inputs, &rule.results})
      for (auto& factors : *values) factors[d] = f;
  }
  return rule;
}

// Dims that the box covers whole are cut alike; the box's starts there are 0 for every device.
OpRule boxed(const Node& node) {
  const Dims &x = dims_of(node.inputs[0]),
             &box = node.op == op::dynamic_slice ? node.types[0].dims : dims_of(node.inputs[1]);
  return alike(node, [&](size_t d) { return x[d] == box[d]; }, 1);
}

// The last dims are transformed.
OpRule fft(const Node& node) {
  const size_t rank = node.types[0].dims.size(), last = node.attrs.ints("fft_length").size();
  return alike(node, [&](size_t d) { return d + last < rank; });
}

// Dims of `rank` that are in neither list, in order.
std::vector<size_t> rest_of(size_t rank, const ir::Ints& a, const ir::Ints& b = {}) {
  std::vector<size_t> out;
  for (size_t d = 0; d < rank; ++d)
    if (!contains(a, int64_t(d)) && !contains(b, int64_t(d))) out.push_back(d);
  return out;
}

OpRule gather(const Node& node) {
  OpRule rule = blank(node);
  const Dims &x = dims_of(node.inputs[0]), &starts = dims_of(node.inputs[1]), &out = node.types[0].dims;
  const ir::Ints &offset = node.attrs.ints("offset_dims"), &sizes = node.attrs.ints("slice_sizes");
  const ir::Ints &batching = node.attrs.ints("operand_batching_dims"),
                 &start_batching = node.attrs.ints("start_indices_batching_dims");
  const auto windows = rest_of(x.size(), node.attrs.ints("collapsed_slice_dims"), batching);
  for (size_t i = 0; i < windows.size() && i < offset.size(); ++i)
    if (sizes[windows[i]] == x[windows[i]])
      rule.inputs[0][windows[i]] = rule.results[0][size_t(offset[i])] = rule.add(x[windows[i]]);
  const auto batch = rest_of(out.size(), offset);
  const auto of_starts = rest_of(starts.size(), {node.attrs.integer("index_vector_dim")});
  for (size_t i = 0; i < batch.size() && i < of_starts.size(); ++i)
    rule.inputs[1][of_starts[i]] = rule.results[0][batch[i]] = rule.add(out[batch[i]]);
  for (size_t i = 0; i < batching.size(); ++i)
    rule.inputs[0][size_t(batching[i])] = rule.inputs[1][size_t(start_batching[i])];
  return rule;
}

// Windows that cover a dim are cut with it. Updates go everywhere: of some there is a part of the sum, where what they
// are added to is nothing; else their own dims are whole.
OpRule scatter(const Node& node) {
  OpRule rule = blank(node);
  const size_t count = node.inputs.size() / 2;
  const Dims &x = dims_of(node.inputs[0]), &updates = dims_of(node.inputs[count + 1]);
  const ir::Ints& window = node.attrs.ints("update_window_dims");
  const std::string kind(node.attrs.text("kind"));
  Value into = node.inputs[0];
  while (into.node->op == op::sharding_constraint) into = into.node->inputs[0];
  if (count == 1 && node.attrs.ints("input_batching_dims").empty() && ops::is_identity(into, kind)) {
    const auto of_updates = rest_of(updates.size(), window);
    const auto of_indices = rest_of(dims_of(node.inputs[1]).size(), {node.attrs.integer("index_vector_dim")});
    for (size_t i = 0; i < of_updates.size(); ++i)
      rule.inputs[1][of_indices[i]] = rule.inputs[2][of_updates[i]] = rule.add(updates[of_updates[i]], kind);
  }
  const auto windows =
      rest_of(x.size(), node.attrs.ints("inserted_window_dims"), node.attrs.ints("input_batching_dims"));
  for (size_t d = 0; d < x.size(); ++d) {
    const int f = rule.carry(x[d]);
    for (size_t n = 0; n < count; ++n) rule.inputs[n][d] = rule.results[n][d] = f;
  }
  for (size_t i = 0; i < windows.size() && i < window.size(); ++i) {
    if (updates[size_t(window[i])] != x[windows[i]]) continue;
    const int f = rule.add(x[windows[i]]);
    for (size_t n = 0; n < count; ++n) {
      rule.inputs[n][windows[i]] = rule.results[n][windows[i]] = f;
      rule.inputs[count + 1 + n][size_t(window[i])] = f;
    }
  }
  return rule;
}

OpRule barrier(const Node& node) {
  OpRule rule = blank(node);
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    for (size_t d = 0; d < rule.inputs[i].size(); ++d)
      rule.inputs[i][d] = rule.results[i][d] = rule.add(dims_of(node.inputs[i])[d]);
  return rule;
}

// Every operand by itself; the dims named so are whole.
OpRule collective(const Node& node, std::initializer_list<std::string_view> whole) {
  OpRule rule = barrier(node);
  for (std::string_view name : whole)
    for (size_t i = 0; i < rule.inputs.size(); ++i) {
      const auto d = size_t(node.attrs.integer(name));
      rule.inputs[i][d] = rule.results[i][d] = kWhole;
    }
  return rule;
}

using Maker = OpRule (*)(const Node&);
const std::map<ir::OpId, Maker>& collective_makers() {
  static const std::map<ir::OpId, Maker> kMakers = {
      {op::all_gather, [](const Node& n) { return collective(n, {"all_gather_dim"}); }},
      {op::all_reduce, [](const Node& n) { return collective(n, {}); }},
      {op::all_to_all, [](const Node& n) { return collective(n, {"split_dimension", "concat_dimension"}); }},
      {op::collective_broadcast, [](const Node& n) { return collective(n, {}); }},
      {op::collective_permute, [](const Node& n) { return collective(n, {}); }},
      {op::reduce_scatter, [](const Node& n) { return collective(n, {"scatter_dimension"}); }},
  };
  return kMakers;
}

const std::map<ir::OpId, Maker>& makers() {
  static const std::map<ir::OpId, Maker> kMakers = {
      {op::bitcast_convert, bitcast},
      {op::broadcast_in_dim, broadcast_in_dim},
      {op::concatenate, concatenate},
      {op::convolution, convolution},
      {op::dot_general, dot_general},
      {op::dynamic_slice, boxed},
      {op::dynamic_update_slice, boxed},
      {op::fft, fft},
      {op::gather, gather},
      {op::lie_alike, elementwise},
      {op::optimization_barrier, barrier},
      {op::pad, pad},
      {op::reduce, reduce},
      {op::reduce_window, windowed},
      {op::reshape, reshape},
      {op::reverse, reverse},
      {op::scatter, scatter},
      {op::select_and_scatter, windowed},
      {op::slice, slice},
      {op::sort, sort},
      {op::transpose, transpose},
  };
  return kMakers;
}

}  // namespace

std::optional<OpRule> rule_of(const Node& node, bool is_manual) {
  if (node.types.empty() || std::any_of(node.types.begin(), node.types.end(), [](auto& t) { return t.is_token; }))
    return std::nullopt;
  const auto made = makers().find(node.op);
  if (made != makers().end()) return made->second(node);
  if (const auto found = collective_makers().find(node.op); is_manual && found != collective_makers().end())
    return found->second(node);
  if (node.op == op::custom_call && node.attrs.text("call_target_name") == kInspection) return elementwise(node);
  const ops::Op* op = node.op == op::custom_call ? ops::called_op(node) : ops::find_op(node.op);
  if (op && op->cut.whole_last) return batched(node, size_t(op->cut.whole_last));
  if (op && op->kind == ops::OpKind::elementwise && node.regions.empty()) return elementwise(node);
  return std::nullopt;
}

LocalForm local_form(const Node& node, const OpRule& rule, const std::vector<int64_t>& counts) {
  LocalForm out{node.attrs, node.types};
  const auto parts = [&](int factor) { return factor == kWhole ? 1 : counts[size_t(factor)]; };
  for (size_t r = 0; r < out.types.size(); ++r)
    for (size_t d = 0; d < out.types[r].dims.size(); ++d) out.types[r].dims[d] /= parts(rule.results[r][d]);
  // Sizes that are spelled out in attributes, each along the dims of an input or of the result.
  const auto divide = [&](std::string_view name, const std::vector<int>& factors) {
    ir::Ints sizes = node.attrs.ints(name);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] > 1) sizes[d] /= parts(factors[d]);  // a batch dim's 1 stays
    out.attrs.set(name, std::move(sizes));
  };
  if (node.op == op::slice) divide("limit_indices", rule.inputs[0]);
  if (node.op == op::dynamic_slice) divide("slice_sizes", rule.inputs[0]);
  if (node.op == op::gather) divide("slice_sizes", rule.inputs[0]);
  return out;
}

}  // namespace trine::compile
