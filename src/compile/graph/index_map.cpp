// Maps through views, and the strides they come to.
#include "compile/graph/index_map.h"

#include "ir/op_ids.h"

namespace trine::compile {

IndexMap identity_map(int rank) {
  IndexMap map;
  for (int d = 0; d < rank; ++d) map.push_back({d, 1, 0});
  return map;
}

namespace {

// The dims of size above 1; a reshape that keeps them only adds or drops dims of size 1.
std::vector<size_t> wide_dims(const Dims& dims) {
  std::vector<size_t> out;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) out.push_back(d);
  return out;
}

bool is_unit_reshape(const ir::Node& node) {
  const Dims &a = node.inputs[0].type().dims, &b = node.types[0].dims;
  const std::vector<size_t> wide_a = wide_dims(a), wide_b = wide_dims(b);
  if (wide_a.size() != wide_b.size()) return false;
  for (size_t i = 0; i < wide_a.size(); ++i)
    if (a[wide_a[i]] != b[wide_b[i]]) return false;
  return true;
}

}  // namespace

ViewKind view_kind(const ir::Node& node) {
  if (node.op == op::broadcast_in_dim || node.op == op::transpose) return ViewKind::whole;
  if (node.op == op::reshape) return is_unit_reshape(node) ? ViewKind::whole : ViewKind::none;
  if (node.op == op::slice || node.op == op::reverse) return ViewKind::part;
  return ViewKind::none;
}

IndexMap through_view(const ir::Node& view, const IndexMap& map) {
  const Dims &in = view.inputs[0].type().dims, &out = view.types[0].dims;
  IndexMap below(in.size());
  if (view.op == op::broadcast_in_dim) {
    const ir::Ints& to = view.attrs.ints("broadcast_dimensions");
    for (size_t d = 0; d < in.size(); ++d)
      if (in[d] == out[size_t(to[d])]) below[d] = map[size_t(to[d])];
  } else if (view.op == op::transpose) {
    const ir::Ints& from = view.attrs.ints("permutation");
    for (size_t d = 0; d < out.size(); ++d) below[size_t(from[d])] = map[d];
  } else if (view.op == op::reshape) {
    const std::vector<size_t> wide_in = wide_dims(in), wide_out = wide_dims(out);
    for (size_t i = 0; i < wide_in.size(); ++i) below[wide_in[i]] = map[wide_out[i]];
  } else if (view.op == op::slice) {
    const ir::Ints &start = view.attrs.ints("start_indices"), &step = view.attrs.ints("strides");
    for (size_t d = 0; d < in.size(); ++d) {
      const int64_t by = step.empty() ? 1 : step[d];
      below[d] = {map[d].dim, map[d].scale * by, map[d].offset * by + start[d]};
    }
  } else {  // reverse
    below = map;
    for (int64_t d : view.attrs.ints("dimensions")) {
      const size_t at = size_t(d);
      below[at] = {map[at].dim, -map[at].scale, in[at] - 1 - map[at].offset};
    }
  }
  return below;
}

Walk walk_of(const IndexMap& map, const Dims& value_dims, size_t loop_dims) {
  Walk walk{0, std::vector<int64_t>(loop_dims, 0)};
  const Dims strides = row_major_strides(value_dims);
  for (size_t d = 0; d < map.size(); ++d) {
    if (value_dims[d] == 1) continue;
    walk.offset += map[d].offset * strides[d];
    if (map[d].dim >= 0) walk.strides[size_t(map[d].dim)] += map[d].scale * strides[d];
  }
  return walk;
}

}  // namespace trine::compile
