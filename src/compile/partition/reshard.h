// Moving a value from one sharding to another, as nodes of a graph: parts are joined (all_gather), cut (each device
// takes its own), or exchanged (all_to_all). And sums over devices.
#pragma once

#include "compile/partition/sharding.h"
#include "ir/graph.h"

namespace trine::compile {

class Resharder {
 public:
  Resharder(const Meshes& meshes, ir::Graph& graph) : meshes_(meshes), graph_(graph) {}

  // This device's number, u32[]; a branch of a case has its own.
  ir::Value device = {};

  Result<ir::Value> move(ir::Value value, const Sharding& from, const Sharding& to, uint32_t where);
  // From the devices of a mesh with an order of its own to the default order, or back.
  Result<ir::Value> reorder(ir::Value value, const std::vector<int64_t>& order, bool is_back, uint32_t where);
  Result<ir::Value> all_reduce(ir::Value value, const Atoms& atoms, const std::string& kind, uint32_t where);
  Result<ir::Value> reduce_scatter(ir::Value value, const Atoms& atoms, const std::string& kind, int64_t dim,
                                   uint32_t where);
  // The value on the first of the devices that differ in these atoms, zero on the others: parts of a sum.
  Result<ir::Value> on_first_of(ir::Value value, const Atoms& atoms, uint32_t where);
  // Which of its dim's parts this device has, times `step`: s32[].
  Result<ir::Value> part_start(const Atoms& atoms, int64_t step, uint32_t where);
  Result<ir::Value> is_not_first(uint32_t where);               // s32[]: 0 on the first device, 1 on others
  Result<ir::Value> of_first(ir::Value value, uint32_t where);  // the first device's, for all
  Result<ir::Value> make(ir::OpId op, std::vector<ir::Value> inputs, ir::Attrs attrs, uint32_t where,
                         std::vector<ir::Type> types = {});

 private:
  Result<ir::Value> at_device(Tensor table, uint32_t where);  // an element of [devices]
  ir::Attrs group_attrs(const Atoms& atoms) const;
  Result<ir::Value> gather(ir::Value value, const Atoms& atoms, int64_t dim, uint32_t where);
  Result<ir::Value> cut(ir::Value value, const Atoms& atoms, int64_t dim, uint32_t where);
  Result<ir::Value> exchange(ir::Value value, const Atoms& atoms, int64_t join, int64_t split, uint32_t where);

  const Meshes& meshes_;
  ir::Graph& graph_;
};

}  // namespace trine::compile
