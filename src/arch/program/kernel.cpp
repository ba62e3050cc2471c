// Shared attribute blocks of a recorded kernel, and the check of one instruction; see kernel.h.
#include "arch/program/kernel.h"

#include "base/text.h"

namespace trine::arch {

uint32_t Kernel::attr_block(const std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  std::string key(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  auto& pool = program().attrs;
  const auto [it, fresh] = attr_blocks_.try_emplace(std::move(key), static_cast<uint32_t>(pool.size()));
  if (fresh) pool.insert(pool.end(), values.begin(), values.end());
  return it->second;
}

uint32_t Kernel::attrs_with(const KernelInsn& w, std::string_view name, int64_t value) {
  const auto& pool = program().attrs;
  std::vector<int64_t> values(pool.begin() + w.attr,
                              pool.begin() + w.attr + static_cast<ptrdiff_t>(w.info->attrs.size()));
  values[static_cast<size_t>(w.info->attr(name))] = value;
  return attr_block(values);
}

Result<void> check_on(const Kernel& kernel, const KernelInsn& kernel_insn, Engine engine, const LoopNest& loops) {
  const Row& row = *kernel_insn.info->row;
  if (!kernel.chip->has(row.needs))
    return fail(Code::unsupported, cat(row.name, " needs `", feature_name(row.needs), "`, which ", kernel.chip->name,
                                       " lacks; use another instruction or a later chip"));
  Insn insn;
  insn.opcode = row.opcode;
  insn.operand = kernel_insn.operand;
  insn.attr = kernel_insn.attr;
  const Call call{kernel.program(), *kernel.chip, insn, *kernel_insn.info, engine, kernel_insn.core};
  Findings found(kernel.program());
  found.whole_program();
  check_access(call, loops, found);
  if (!found.empty()) return found.take()[0].error;
  if (row.check && row.unit != Unit::control)
    if (auto r = row.check(*kernel.chip, call); !r) return fail(r.error().code, cat(row.name, ": ", r.error().message));
  return {};
}

}  // namespace trine::arch
