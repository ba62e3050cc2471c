// Shared attribute blocks of a recorded kernel; see kernel.h.
#include "arch/kernel.h"

namespace trine::arch {

uint32_t Kernel::attr_block(const std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  std::string key(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  auto& pool = program().attrs;
  const auto [it, fresh] = attr_blocks_.try_emplace(std::move(key), static_cast<uint32_t>(pool.size()));
  if (fresh) pool.insert(pool.end(), values.begin(), values.end());
  return it->second;
}

uint32_t Kernel::attrs_with(const Work& w, std::string_view name, int64_t value) {
  const auto& pool = program().attrs;
  std::vector<int64_t> values(pool.begin() + w.attr,
                              pool.begin() + w.attr + static_cast<ptrdiff_t>(w.info->attrs.size()));
  values[static_cast<size_t>(w.info->attr(name))] = value;
  return attr_block(values);
}

}  // namespace trine::arch
