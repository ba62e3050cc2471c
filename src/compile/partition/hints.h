// Where values would best lie: shardings carried forward from parameters and backward from results and constraints,
// over the factors of each op. Hints only: the partitioner is right without them, with more copies.
#pragma once

#include <unordered_map>

#include "compile/partition/manual.h"
#include "compile/partition/rules.h"
#include "compile/partition/sharding.h"

namespace trine::compile {

// Which atoms cut each factor. An atom is used once; of two wishes the first one counts.
class FactorAtoms {
 public:
  enum class Of { op, inputs, results };  // what is asked of them: not every factor counts for it

  FactorAtoms(const Meshes& meshes, const OpRule& rule, Of of)
      : meshes_(meshes), rule_(rule), of_(of), atoms_(rule.factors.size()) {}

  void wish(const std::vector<int>& factors, const Sharding& sharding);
  // In the rule's order: inputs, then what the results are wanted as, or the other way round.
  void wish_all(const std::vector<const Sharding*>& inputs, const std::vector<const Sharding*>& results);

  Sharding of(const std::vector<int>& factors) const;
  const Atoms& operator[](size_t factor) const { return atoms_[factor]; }

 private:
  const Meshes& meshes_;
  const OpRule& rule_;
  const Of of_;
  std::vector<Atoms> atoms_;
  Atoms used_;
};

class Hints {
 public:
  Hints(const Meshes& meshes, const ir::Graph& graph, const ManualParts& manual)
      : meshes_(meshes), graph_(graph), manual_(manual) {}

  Result<void> compute();
  const Sharding* find(const ir::Value& value) const;  // null: none

 private:
  bool set(const ir::Value& value, Sharding sharding);  // where there is none yet, or dims were left open
  void declare(const ir::Value& value,
               Meshes::Parsed declared);  // what the program says itself; only open dims may change
  void forward(const ir::Node& node);
  void backward(const ir::Node& node);
  Result<void> fix(const ir::Node& node);
  void enter(const ir::Node& to_local);  // between a whole and its part: what other axes cut
  void leave(const ir::Node& to_global);
  void loop(const ir::Node& node);
  void choice(const ir::Node& node);
  void tie(const std::vector<ir::Value>& values);  // they lie alike
  void sweep(const ir::Region& body);

  const Meshes& meshes_;
  const ir::Graph& graph_;
  const ManualParts& manual_;
  std::unordered_map<const ir::Node*, ManualSharding> at_edges_;  // of to_local and to_global
  std::unordered_map<ir::Value, Sharding, ValueKeyHash> hints_;
  std::unordered_map<ir::Value, Meshes::Parsed, ValueKeyHash> declared_;
};

bool is_whole(const Sharding& sharding);
// What is said, and of dims left open what `have` has, as far as its atoms are free.
Sharding filled(const Meshes::Parsed& declared, const Sharding& have);

}  // namespace trine::compile
