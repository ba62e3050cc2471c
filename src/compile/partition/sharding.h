// How a tensor is laid over the devices of a mesh, read from Shardy's text (`#sdy.sharding<@mesh, [{"x"}, {}]>`).
// Meshes are cut into common atoms: digits of the device number, so that axes of different meshes can be compared.
// Invariant: a dim's atoms are listed from major to minor, and no atom occurs twice in a sharding.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace trine::compile {

using Atoms = std::vector<int>;       // by number, in Mesh::atoms
using Sharding = std::vector<Atoms>;  // per dim; empty: the whole dim on every device

struct Atom {
  int64_t size = 1, stride = 1;  // device number = sum of digit * stride
};

class Meshes {
 public:
  // From Graph::attrs: "mesh = #sdy.mesh<["x"=4, "y"=2]>" and the number of partitions.
  static Result<Meshes> make(const ir::Attrs& attrs, int64_t devices);

  int64_t devices() const { return devices_; }
  const std::vector<Atom>& atoms() const { return atoms_; }

  struct Parsed {
    Sharding dims;
    std::vector<bool> is_open;        // per dim: more axes may be added
    bool is_single = false;           // the whole value on one device
    Atoms unreduced = {};             // devices that differ in these hold parts of a sum
    Atoms replicated = {};            // devices that differ in these hold the same: no open dim takes them
    std::vector<int64_t> order = {};  // device `order[k]` stands where its mesh has the k-th; empty: k
  };
  // `text` may be empty: nothing is said, every dim is open. Axes that do not divide their dim are left out.
  Result<Parsed> parse(std::string_view text, const Dims& dims) const;
  Result<Atoms> axes(const std::vector<std::string>& names) const;  // of the first mesh that has them

  int64_t count(const Atoms& atoms) const;                             // product of their sizes
  int64_t index(const Atoms& atoms, int64_t device) const;             // which part the device has
  std::vector<std::vector<int64_t>> groups(const Atoms& atoms) const;  // devices that differ in these only, in order
  Dims local(const Dims& dims, const Sharding& sharding) const;
  // "{devices=[4,1,2]0,1,2 ... last_tile_dim_replicate}"
  std::string hlo_text(const Sharding& sharding, Atoms unreduced = {}, const std::vector<int64_t>& order = {}) const;

 private:
  struct Axis {
    int64_t size = 1, stride = 1;
  };
  struct Mesh {
    std::map<std::string, Axis, std::less<>> axes = {};
    std::vector<int64_t> order = {};
  };

  Result<void> add_mesh(std::string_view text);
  Result<Atoms> atoms_of(const Axis& axis) const;
  Result<Atoms> listed(std::string_view text, std::string_view list, const Mesh& mesh) const;
  const Mesh* find(std::string_view reference) const;

  int64_t devices_ = 1;
  std::map<std::string, Mesh, std::less<>> meshes_;
  std::vector<Atom> atoms_;  // major first
};

Error own_order(std::string_view sharding);  // says that parts of one device alone cannot be so

// The shardings of a program's inputs and results as XLA writes them; empty where the program runs on one device.
struct ShardingTexts {
  std::vector<std::string> inputs = {}, results = {};
};
Result<ShardingTexts> sharding_texts(const ir::Graph& graph);

}  // namespace trine::compile
