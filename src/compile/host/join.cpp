// Parts of joins by index maps.
#include "compile/host/join.h"

#include <algorithm>
#include <map>
#include <set>

#include "arch/plan/loop.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"

namespace trine::compile {

namespace {

namespace tuned = thresholds::fuse;

// The indices of a dim that a term runs over, in a box.
std::pair<int64_t, int64_t> range_of(const IndexTerm& term, const Dims& box) {
  const int64_t first = term.offset, steps = term.dim < 0 ? 0 : box[size_t(term.dim)] - 1;
  const int64_t last = first + steps * term.scale;
  return std::minmax(first, last);
}

// Of a box whose indices lie on both sides of `seam`: the first loop index that is on the other side.
Cut cut_at(const IndexTerm& term, int64_t seam) {
  const int64_t scale = std::abs(term.scale);
  const int64_t behind = term.scale > 0 ? seam - term.offset : term.offset - seam + 1;
  return {size_t(term.dim), (behind + scale - 1) / scale};
}

Joined part_of_concatenation(const ir::Node& node, const IndexMap& map, const Dims& box) {
  const auto dim = size_t(node.attrs.integer("dimension"));
  const auto [first, last] = range_of(map[dim], box);
  IndexMap at = map;
  int64_t end = 0;
  for (const ir::Value& part : node.inputs) {
    const int64_t size = part.type().dims[dim];
    if (first >= end + size) {
      end += size;
      at[dim].offset -= size;
      continue;
    }
    if (last < end + size) return std::pair(part, std::move(at));
    return cut_at(map[dim], end + size);
  }
  return std::pair(node.inputs.back(), std::move(at));
}

Joined part_of_pad(const ir::Node& node, const IndexMap& map, const Dims& box) {
  const ir::Ints& low = node.attrs.ints("edge_padding_low");
  const Dims& dims = node.inputs[0].type().dims;
  IndexMap at = map;
  for (size_t d = 0; d < map.size(); ++d) {
    const auto [first, last] = range_of(map[d], box);
    if (last < low[d] || first >= low[d] + dims[d]) return std::pair(node.inputs[1], IndexMap{});
    at[d].offset -= low[d];
  }
  for (size_t d = 0; d < map.size(); ++d) {
    const auto [first, last] = range_of(map[d], box);
    if (first < low[d]) return cut_at(map[d], low[d]);
    if (last >= low[d] + dims[d]) return cut_at(map[d], low[d] + dims[d]);
  }
  return std::pair(node.inputs[0], std::move(at));
}

// Where parts meet along the node's dims: (dim, index).
std::vector<std::pair<size_t, int64_t>> seams_of(const ir::Node& node) {
  std::vector<std::pair<size_t, int64_t>> seams;
  if (node.op == op::concatenate) {
    const auto dim = size_t(node.attrs.integer("dimension"));
    int64_t end = 0;
    for (const ir::Value& part : node.inputs) {
      end += part.type().dims[dim];
      if (end > 0 && end < node.types[0].dims[dim]) seams.emplace_back(dim, end);
    }
    return seams;
  }
  const ir::Ints& low = node.attrs.ints("edge_padding_low");
  const Dims &in = node.inputs[0].type().dims, &out = node.types[0].dims;
  for (size_t d = 0; d < in.size(); ++d)
    for (int64_t at : {low[d], low[d] + in[d]})
      if (at > 0 && at < out[d]) seams.emplace_back(d, at);
  return seams;
}

}  // namespace

bool is_join(const ir::Node& node) {
  if (node.types.size() != 1 || !arch::is_loop_dtype(node.types[0].dtype) || node.types[0].elements() == 0)
    return false;
  if (node.op == op::concatenate) return true;
  if (node.op != op::pad || node.inputs[0].type().elements() == 0) return false;
  const ir::Ints& gaps = node.attrs.ints("interior_padding");
  return std::all_of(gaps.begin(), gaps.end(), [](int64_t gap) { return gap == 0; });
}

size_t boxes_of(std::span<const ir::Node* const> joins, const ir::Node& one_more) {
  std::set<std::pair<size_t, int64_t>> seams;
  for (const ir::Node* join : joins)
    for (const auto& seam : seams_of(*join)) seams.insert(seam);
  for (const auto& seam : seams_of(one_more)) seams.insert(seam);
  std::map<size_t, size_t> along;
  for (const auto& seam : seams) ++along[seam.first];
  size_t boxes = 1;
  for (const auto& [dim, count] : along) boxes *= count + 1;
  return boxes;
}

bool has_long_runs(const ir::Node& join) {
  const Dims& dims = join.types[0].dims;
  const int64_t all = join.types[0].elements();
  if (all <= tuned::kTinySpace) {  // copied in one step, where more than two loops would make it
    const bool is_row = std::find(dims.begin(), dims.end(), all) != dims.end() && all <= tuned::kSelectedMax;
    return is_row || join.inputs.size() <= 2;
  }
  int64_t narrow = 0;
  for (const ir::Value& part : join.inputs) {
    const Dims& own = part.type().dims;
    if (own.size() == dims.size() && own.back() < tuned::kRunLeast && own.back() < dims.back())
      narrow += part.type().elements();
  }
  return dims.back() >= tuned::kRunLeast && narrow <= all / 8;
}

bool is_part(const ir::Node& node, std::span<const ir::Node* const> joins) {
  return std::any_of(joins.begin(), joins.end(), [&](const ir::Node* join) {
    return std::any_of(join->inputs.begin(), join->inputs.end(),
                       [&](const ir::Value& v) { return v.type().elements() == node.types[0].elements(); });
  });
}

Joined part_of(const ir::Node& join, const IndexMap& map, const Dims& box) {
  return join.op == op::pad ? part_of_pad(join, map, box) : part_of_concatenation(join, map, box);
}

}  // namespace trine::compile
