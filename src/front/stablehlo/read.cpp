// See read.h.
#include "front/stablehlo/read.h"

#include "base/text.h"
#include "front/stablehlo/bytecode.h"
#include "front/stablehlo/container.h"
#include "front/stablehlo/text.h"

namespace trine::front::stablehlo {

Result<Module> read_module(std::string bytes, std::string_view name) {
  Module module;
  const std::string_view kept = module.keep(std::move(bytes));
  const bool bytecode = kept.starts_with(kBytecodeMagic);
  const auto read = bytecode ? read_bytecode(kept, module) : read_text(kept, name, module);
  if (read) return module;
  const Error& e = read.error();
  return fail(e.code, e.message, e.where.empty() ? std::string(name) : cat(name, ":", bytecode ? " " : "", e.where));
}

}  // namespace trine::front::stablehlo
