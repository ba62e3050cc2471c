// Each step changes one dim, or two that trade atoms.
#include "compile/partition/reshard.h"

#include <algorithm>

#include "ir/op_ids.h"
#include "ops/op.h"

namespace trine::compile {

using ir::Value;

Result<Value> Resharder::make(ir::OpId op, std::vector<Value> inputs, ir::Attrs attrs, uint32_t where,
                              std::vector<ir::Type> types) {
  return TRY(ops::make(graph_, {.op = op,
                                .inputs = std::move(inputs),
                                .attrs = std::move(attrs),
                                .types = std::move(types),
                                .where = where}))
      ->result();
}

ir::Attrs Resharder::group_attrs(const Atoms& atoms) const {
  ir::Ints flat;
  for (const auto& group : meshes_.groups(atoms)) flat.insert(flat.end(), group.begin(), group.end());
  return {{"replica_groups", std::move(flat)}, {"group_size", meshes_.count(atoms)}, {"channel_id", int64_t{1}}};
}

Result<Value> Resharder::gather(Value value, const Atoms& atoms, int64_t dim, uint32_t where) {
  ir::Attrs attrs = group_attrs(atoms);
  attrs.set("all_gather_dim", dim);
  attrs.set("use_global_device_ids", true);
  return make(op::all_gather, {value}, std::move(attrs), where);
}

Result<Value> Resharder::exchange(Value value, const Atoms& atoms, int64_t join, int64_t split, uint32_t where) {
  ir::Attrs attrs = group_attrs(atoms);
  attrs.set("split_dimension", split);
  attrs.set("concat_dimension", join);
  attrs.set("split_count", meshes_.count(atoms));
  return make(op::all_to_all, {value}, std::move(attrs), where);
}

Result<Value> Resharder::all_reduce(Value value, const Atoms& atoms, const std::string& kind, uint32_t where) {
  ir::Attrs attrs = group_attrs(atoms);
  attrs.set("kind", kind);
  attrs.set("use_global_device_ids", true);
  return make(op::all_reduce, {value}, std::move(attrs), where);
}

Result<Value> Resharder::reduce_scatter(Value value, const Atoms& atoms, const std::string& kind, int64_t dim,
                                        uint32_t where) {
  ir::Attrs attrs = group_attrs(atoms);
  attrs.set("kind", kind);
  attrs.set("scatter_dimension", dim);
  attrs.set("use_global_device_ids", true);
  return make(op::reduce_scatter, {value}, std::move(attrs), where);
}

Result<Value> Resharder::reorder(Value value, const std::vector<int64_t>& order, bool is_back, uint32_t where) {
  ir::Ints pairs;
  for (int64_t k = 0; k < int64_t(order.size()); ++k) {
    const int64_t own = order[size_t(k)];
    pairs.insert(pairs.end(), {is_back ? k : own, is_back ? own : k});
  }
  return make(op::collective_permute, {value}, {{"source_target_pairs", std::move(pairs)}, {"channel_id", int64_t{1}}},
              where);
}

Result<Value> Resharder::at_device(Tensor table, uint32_t where) {
  if (!device) device = TRY(make(op::partition_id, {}, {}, where));
  const Value one =
      TRY(make(op::dynamic_slice, {graph_.constant(std::move(table)), device}, {{"slice_sizes", ir::Ints{1}}}, where));
  return make(op::reshape, {one}, {}, where, {ir::tensor_type(one.type().dtype, {})});
}

Result<Value> Resharder::part_start(const Atoms& atoms, int64_t step, uint32_t where) {
  Tensor table = Tensor::make(Dtype::s32, {meshes_.devices()});
  for (int64_t d = 0; d < meshes_.devices(); ++d)
    table.view().as<int32_t>()[d] = int32_t(meshes_.index(atoms, d) * step);
  return at_device(std::move(table), where);
}

Result<Value> Resharder::on_first_of(Value value, const Atoms& atoms, uint32_t where) {
  Tensor table = Tensor::make(Dtype::boolean, {meshes_.devices()});
  for (int64_t d = 0; d < meshes_.devices(); ++d) table.view().as<uint8_t>()[d] = meshes_.index(atoms, d) == 0;
  const Value zero = graph_.constant(Tensor::make(value.type().dtype, {}));
  const Value zeros =
      TRY(make(op::broadcast_in_dim, {zero}, {{"broadcast_dimensions", ir::Ints{}}}, where, {value.type()}));
  return make(op::select, {TRY(at_device(std::move(table), where)), value, zeros}, {}, where);
}

Result<Value> Resharder::is_not_first(uint32_t where) {
  Tensor table = Tensor::make(Dtype::s32, {meshes_.devices()});
  for (int64_t d = 0; d < meshes_.devices(); ++d) table.view().as<int32_t>()[d] = d != 0;
  return at_device(std::move(table), where);
}

Result<Value> Resharder::of_first(Value value, uint32_t where) {
  const ir::Type type = value.type();
  Dims row = type.dims;
  row.insert(row.begin(), 1);
  Atoms all;
  for (int a = 0; a < int(meshes_.atoms().size()); ++a) all.push_back(a);
  const Value mine = TRY(make(op::reshape, {value}, {}, where, {ir::tensor_type(type.dtype, row)}));
  const Value rows = TRY(gather(mine, all, 0, where));
  const ir::Attrs first = {
      {"start_indices", ir::Ints(row.size())}, {"limit_indices", row}, {"strides", ir::Ints(row.size(), 1)}};
  return make(op::reshape, {TRY(make(op::slice, {rows}, first, where))}, {}, where, {type});
}

Result<Value> Resharder::cut(Value value, const Atoms& atoms, int64_t dim, uint32_t where) {
  Dims sizes = value.type().dims;
  sizes[size_t(dim)] /= meshes_.count(atoms);
  const Value zero = graph_.constant(Tensor::make(Dtype::s32, {}));
  std::vector<Value> inputs = {value};
  for (int64_t d = 0; d < int64_t(sizes.size()); ++d)
    inputs.push_back(d == dim ? TRY(part_start(atoms, sizes[size_t(dim)], where)) : zero);
  return make(op::dynamic_slice, std::move(inputs), {{"slice_sizes", ir::Ints(sizes)}}, where);
}

static size_t common_prefix(const Atoms& a, const Atoms& b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
static Atoms suffix(const Atoms& a, size_t from) { return Atoms(a.begin() + int64_t(from), a.end()); }

Result<Value> Resharder::move(Value value, const Sharding& from, const Sharding& to, uint32_t where) {
  Sharding now = from;
  const size_t rank = from.size();
  // The last atoms of one dim that another dim wants next.
  for (size_t i = 0; i < rank; ++i) {
    const size_t common = common_prefix(now[i], to[i]);
    const Atoms moved = suffix(now[i], common);
    if (moved.empty() || common != to[i].size()) continue;
    for (size_t j = 0; j < rank; ++j) {
      Atoms longer = now[j];
      longer.insert(longer.end(), moved.begin(), moved.end());
      if (j == i || longer != to[j] || value.type().dims[j] % meshes_.count(moved)) continue;
      value = TRY(exchange(value, moved, int64_t(i), int64_t(j), where));
      now[i].resize(common);
      now[j] = std::move(longer);
      break;
    }
  }
  for (size_t d = 0; d < rank; ++d) {
    const size_t common = common_prefix(now[d], to[d]);
    if (common == now[d].size()) continue;
    value = TRY(gather(value, suffix(now[d], common), int64_t(d), where));
    now[d].resize(common);
  }
  for (size_t d = 0; d < rank; ++d)
    if (now[d] != to[d]) value = TRY(cut(value, suffix(to[d], now[d].size()), int64_t(d), where));
  return value;
}

}  // namespace trine::compile
