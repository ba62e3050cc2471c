// The conversion of graph.h while it runs, spread over graph*.cpp. Not an interface: graph.h is.
// Invariant: values_ holds, for every value of the module defined so far on the current path, its value in the graph.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "front/stablehlo/graph/gspmd.h"
#include "front/stablehlo/module.h"
#include "ir/graph.h"
#include "ir/value_hash.h"
#include "ops/op.h"

namespace trine::front::stablehlo {

using Values = std::vector<ir::Value>;

// "model.py:12 (jit(f)/dot_general)"; empty where nothing is known. `around`: the name of the call it is inlined by.
std::string location_text(const Module& module, AttrId location, std::string_view around = {});
std::string_view location_name(const Module& module,
                               AttrId location);  // what JAX calls it: "jit(f)/layer 0/jit(block)"

// type.cpp
Result<ir::Type> graph_type(const Module& module, TypeId id);
Result<Tensor> graph_tensor(const Module& module, const Attr& dense);  // of a splat its one element, as a scalar

// attr.cpp: attributes as plain values; those with a dot in their name, and accuracies, are left out.
Result<ir::Attrs> graph_attrs(const Module& module, const Op& op);

class GraphMaker {
 public:
  explicit GraphMaker(const Module& module) : module_(module), values_(module.values.size()) {}

  Result<ir::Graph> make();

 private:
  using Rule = Result<void> (GraphMaker::*)(const Op& op);
  static Rule rule_for(std::string_view op);

  // graph.cpp
  Result<void> find_functions();
  Result<void> main_function(const Op& function);
  Result<bool> peel_manual(const Op& function);  // whether main is one manual computation, now taken as the program
  Result<void> add_parameter(const Op& function, uint32_t i, TypeId type, std::string sharding);
  void finish_donations(const Op& function);
  ir::Strings texts_of(const Op& function, std::string_view list, std::string_view name, size_t count) const;
  void note_locations(const Op& function);
  Result<std::string> sharding_of(const Op& function, std::string_view list, size_t i, TypeId type);
  std::vector<AttrId> same_shardings(const Op& function, std::string_view list, const Op& manual,
                                     std::string_view wanted) const;
  const Op* find_manual(const Block& main) const;
  int64_t manual_devices(const Op& manual, AttrId sharding) const;
  AttrId dictionary_entry(const Op& op, std::string_view list, size_t i, std::string_view name) const;

  // op.cpp
  Result<Values> block(const Block& block, std::span<const ir::Value> arguments);
  Result<void> op(const Op& op);
  Result<Values> operands(const Op& op) const;
  Result<std::vector<ir::Type>> result_types(const Op& op) const;
  Result<void> bind(const Op& op, std::span<const ir::Value> results);
  Result<void> add(const Op& op, std::string_view name, ir::Attrs attrs, Values inputs,
                   std::vector<ir::Region> regions = {});
  Result<ir::Value> make1(ir::OpId id, Values inputs, ir::Attrs attrs, std::vector<ir::Type> types = {});
  Result<void> plain(const Op& op);
  Result<void> identity(const Op& op);
  Result<void> nothing(const Op&) { return {}; }
  Result<void> constraint(const Op& op);
  Result<void> sharding_group(const Op& op);
  Result<void> constant(const Op& op);
  Result<void> broadcast(const Op& op);
  Result<void> dot(const Op& op);
  Result<void> convolution(const Op& op);
  Result<void> dimension_size(const Op& op);
  Result<void> custom_call(const Op& op);
  Result<void> gspmd(const Op& op, std::string_view target);
  Result<void> sink(const Op& op, ir::Attrs attrs);
  void note_layout(const Op& op, const Values& inputs);
  Result<void> cross_replica_sum(const Op& op);
  Result<void> ragged_all_to_all(const Op& op);

  // region.cpp
  Result<ir::Region> region(const Region& region, std::span<const ir::Value> outer = {});
  Result<const Block*> only_block(const Region& region) const;
  std::string_view combiner(const Op& op, size_t number) const;  // "add", ...; empty: none of the kinds
  Result<void> combined(const Op& op);                           // reduce, reduce_window, scatter, all_reduce ...
  Result<void> select_and_scatter(const Op& op);
  Result<void> sort(const Op& op);
  Result<void> with_regions(const Op& op);
  Result<void> choice(const Op& op);  // if, case
  Result<ir::Value> index_of(ir::Value predicate);
  Result<void> call(const Op& op);
  Result<void> composite(const Op& op);
  Result<void> inline_body(const Op& op);  // sdy's computations
  Result<void> manual(const Op& op);
  Result<void> call_function(const Op& op, std::string_view name);
  const Op* single_op(const Op& op, size_t number) const;

  const Module& module_;
  ir::Graph graph_;
  Values values_;
  std::unordered_map<std::string_view, const Op*> functions_;
  std::unordered_set<const Op*> open_;                                 // functions being inlined
  std::unordered_map<AttrId, uint32_t> locations_;                     // of the function being converted
  std::string around_;                                                 // the names of the calls it is inlined by
  std::unordered_map<ir::Value, std::string, ir::ValueHash> layouts_;  // that the program asks for by itself
  Values* effects_ = nullptr;                                          // of the region being converted
  uint32_t where_ = 0;                                                 // of the op being converted
  // Of the block being converted: the number of its first value, and groups of values that lie alike with one member.
  uint32_t block_first_ = 0;
  std::unordered_map<uint64_t, ValueId> groups_;
  int64_t partitions_ = 1;
  GspmdMeshes gspmd_{1};
  int manual_depth_ = 0;   // of the manual parts that the op is in
  bool is_local_ = false;  // shapes are those of one device already
  int64_t ops_ = 0;
  int depth_ = 0;
};

}  // namespace trine::front::stablehlo
