// Shardings as GSPMD writes them, in Shardy's words.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace trine::front::stablehlo {

class GspmdMeshes {
 public:
  explicit GspmdMeshes(int64_t devices) : devices_(devices) {}

  // "{devices=[2,1]<=[2]}" as "#sdy.sharding<@gspmd_0, [{"gspmd_2_1"}, {}]>". More axes may be added to the dims that
  // `config` names: "unspecified_dims=[0]".
  Result<std::string> convert(std::string_view text, size_t rank, std::string_view config = {});
  const ir::Strings& axes_of(const std::string& converted) const { return axes_.at(converted); }  // all of its mesh
  const ir::Strings& meshes() const { return meshes_; }  // those that it used: "gspmd_0 = #sdy.mesh<...>"

 private:
  std::string mesh_of(const Dims& counted, const std::vector<int64_t>& order);
  static std::string axis(const Dims& counted, size_t i);

  int64_t devices_ = 1;
  ir::Strings meshes_ = {};
  std::unordered_map<std::string, ir::Strings> axes_ = {};
};

}  // namespace trine::front::stablehlo
