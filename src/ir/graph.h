// The tensor graph: immutable nodes, interned, so that two equal pure computations are one node.
// A region (of while, case, reduce ...) is a list of parameters and results; it may use values of the graph around it.
// Invariants: a node is made after its inputs and after all nodes of its regions, so ids are a topological order;
// nodes never change and live as long as their graph.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/attr.h"
#include "ir/op_id.h"
#include "ir/type.h"

namespace trine::ir {

struct Node;

struct Value {
  const Node* node = nullptr;
  uint32_t index = 0;  // of the node's results

  const Type& type() const;
  bool operator==(const Value&) const = default;
  explicit operator bool() const { return node != nullptr; }
};

struct Region {
  std::vector<Value> params = {};  // "parameter" nodes that belong to this region alone
  std::vector<Value> results = {};
  std::vector<Value> effects = {};  // nodes of the region kept although nothing uses them

  bool operator==(const Region&) const = default;
};
// A node is of a region when it depends on the region's parameters, or is one of its effects; all else it uses is of
// the graph around it (so what does not change in a loop is outside the loop). Hence the branches of a case are
// given what they use as parameters: "case" has inputs (index, used ...), each branch one parameter per used value.

struct Node {
  OpId op = {};  // one of ops/, or op::parameter
  uint32_t id = 0;
  uint32_t where = 0;  // Graph::location(where): the user's line; no part of what the node is
  std::vector<Value> inputs = {};
  Attrs attrs = {};
  std::vector<Region> regions = {};
  std::vector<Type> types = {};      // of the results
  bool is_unique = false;            // never merged with its equal
  std::vector<Value> captures = {};  // values around the node that its regions use; follows from regions

  Value result(uint32_t i = 0) const { return {this, i}; }
};

inline const Type& Value::type() const { return node->types[index]; }

// What a node is made from.
struct Spec {
  OpId op = {};
  std::vector<Value> inputs = {};
  Attrs attrs = {};
  std::vector<Region> regions = {};
  std::vector<Type> types = {};
  uint32_t where = 0;
  bool is_unique = false;  // never the same as another: parameters, effects
};

class Graph {
 public:
  // Defined in graph.cpp: inline, every file that holds a graph would compile them again.
  Graph();
  Graph(Graph&& other);
  Graph& operator=(Graph&& other);
  ~Graph();

  std::string name = "main";
  std::vector<Value> params;   // of the program
  std::vector<Value> results;  // of the program
  std::vector<Value> effects;  // nodes kept although nothing uses them
  std::vector<int> donations;  // per parameter: the result that may take its memory, or -1; may be shorter
  Attrs attrs;                 // num_partitions, num_replicas, meshes

  Value parameter(Type type, uint32_t where = 0);  // unique; the caller adds it to params or to a region
  Value constant(Tensor value, uint32_t where = 0);
  const Node* add(Spec spec);
  Value add1(OpId op, std::vector<Value> inputs, Type type, Attrs attrs = {}, uint32_t where = 0);

  uint32_t add_location(std::string location);  // "model.py:12 (jit(f)/dot_general)"; equal locations are one
  const std::string& location(uint32_t where) const { return locations_[where]; }
  uint32_t node_count() const { return uint32_t(nodes_.size()); }

  // Nodes that results and effects need, in order of id; those inside regions are not listed, but what regions
  // use of the graph around them is.
  std::vector<const Node*> order() const { return order(results, effects); }
  static std::vector<const Node*> order(const std::vector<Value>& results, const std::vector<Value>& effects = {});

 private:
  std::deque<Node> nodes_;
  std::unordered_multimap<size_t, const Node*> by_hash_;
  std::unordered_map<std::string, uint32_t> location_ids_;
  std::deque<std::string> locations_ = {""};
};

// The nodes of a region in order of id, and the values around it that it uses.
struct RegionBody {
  std::vector<const Node*> nodes = {};
  std::vector<Value> captures = {};
};
RegionBody body_of(const Region& region);

}  // namespace trine::ir
