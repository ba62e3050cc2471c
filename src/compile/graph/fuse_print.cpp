// Units as text; see fuse.h.
#include <algorithm>

#include "base/text.h"
#include "compile/graph/fuse.h"

namespace trine::compile {

std::string unit_text(const Unit& unit) {
  const ir::Node& last = unit.single ? *unit.single : *unit.roots.front();
  std::string out = cat(ir::text(last.types[0]), " =");
  if (unit.product) append_text(out, cat(" ", unit.product->op));
  if (unit.attention) append_text(out, " attention");
  if (unit.single) append_text(out, cat(" ", unit.single->op));
  std::vector<const ir::Node*> members(unit.members.begin(), unit.members.end());
  std::sort(members.begin(), members.end(), [](const ir::Node* a, const ir::Node* b) { return a->id < b->id; });
  for (const ir::Node* node : members) append_text(out, cat(" ", node->op));
  return out;
}

std::string fusion_text(const Fusion& fusion) {
  std::string out;
  for (const Unit& unit : fusion.units) append_text(out, cat(unit_text(unit), "\n"));
  return out;
}

}  // namespace trine::compile
