// Gathers the names; see names.h.
#include "tools/names.h"

#include "compile/pass/all.h"

#include "arch/chips/chip.h"
#include "arch/instances/instance.h"
#include "arch/row.h"
#include "ops/op.h"
#include "tools/cli.h"

namespace trine::tools {

std::vector<std::string> instance_names() {
  std::vector<std::string> out;
  for (const arch::Instance& i : arch::all_instances()) out.push_back(i.name);
  return out;
}

std::vector<std::string> chip_names() {
  std::vector<std::string> out;
  for (const arch::Chip& c : arch::all_chips()) out.push_back(c.name);
  return out;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> out = {"all"};
  for (const compile::PassRow& row : compile::all_passes()) out.emplace_back(row.name);
  return out;
}

std::vector<std::string> op_names() {
  std::vector<std::string> out;
  for (const ops::Op* op : ops::all_ops()) out.emplace_back(op->name);
  return out;
}

std::vector<std::string> instruction_names() {
  std::vector<std::string> out;
  for (const arch::RowInfo& r : arch::rows()) out.emplace_back(r.row->name);
  return out;
}

std::vector<std::string> command_names() {
  std::vector<std::string> out;
  for (const Command* c : commands()) out.emplace_back(c->name);
  return out;
}

}  // namespace trine::tools
