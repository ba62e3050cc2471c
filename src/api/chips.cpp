// Built-in chips and those of files; see chips.h.
#include "api/chips.h"

#include <map>
#include <mutex>

#include "base/file.h"

namespace trine::api {

Result<const arch::Chip*> find_chip(const std::string& name) {
  const bool is_file = name.ends_with(".json"), is_text = !name.empty() && name[0] == '{';
  if (!is_file && !is_text) return arch::find_chip(name);
  const std::string text = is_text ? name : TRY(read_file(name));
  static std::mutex mutex;
  static std::map<std::string, arch::Chip> chips;
  const std::lock_guard held(mutex);
  if (const auto found = chips.find(text); found != chips.end()) return &found->second;
  arch::Chip chip = TRY(arch::parse_chip(text, is_text ? "chip" : name));
  return &chips.emplace(text, std::move(chip)).first->second;
}

}  // namespace trine::api
