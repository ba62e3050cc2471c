// Which values are of a program written for one device (the body of a shard_map), and over which axes. The other axes
// of the mesh still cut such a value, as they do any.
#pragma once

#include <unordered_map>

#include "compile/partition/sharding.h"
#include "ir/graph.h"

namespace trine::compile {

struct ValueKeyHash {
  size_t operator()(const ir::Value& v) const { return std::hash<const void*>()(v.node) * 31 + v.index; }
};

struct Manual {
  bool is_manual = false;
  Atoms axes = {};  // none, but manual: it follows from the device's number alone, and is never cut

  bool can_be_cut() const { return !is_manual || !axes.empty(); }
};

class ManualParts {
 public:
  static Result<ManualParts> make(const Meshes& meshes, const ir::Graph& graph);

  const Manual& of(const ir::Value& value) const;
  Manual of(const ir::Node& node) const;  // of all it uses together

 private:
  Result<void> visit(const Meshes& meshes, const ir::Node& node);
  void set(const ir::Value& value, const Manual& manual) {
    if (manual.is_manual) parts_[value] = manual;
  }

  std::unordered_map<ir::Value, Manual, ValueKeyHash> parts_;
};

// Of a to_local or to_global: the manual axes, and how they cut the whole.
struct ManualSharding {
  Meshes::Parsed declared;  // of manual axes alone
  Meshes::Parsed other;     // of the others, for the part
  Atoms axes;
};
Result<ManualSharding> manual_sharding(const Meshes& meshes, const ir::Node& node, const Dims& dims);

// Without these atoms, and without those that do not divide `dims`.
Sharding left_of(const Sharding& sharding, const Atoms& without, const Dims& dims, const Meshes& meshes);
// Per dim the first, and within its parts the second.
Sharding joined(Sharding first, const Sharding& second);

}  // namespace trine::compile
