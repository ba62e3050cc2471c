// See read.h.
#include "front/stablehlo/read.h"

#include <cstring>

#include "base/text.h"
#include "front/stablehlo/bytecode/bytecode.h"
#include "front/stablehlo/bytecode/container.h"
#include "front/stablehlo/text/text.h"

namespace trine::front::stablehlo {

namespace {

// The module of a file of jax.export's: a flatbuffer, where the bytes of a vector follow their number. Else all of it.
std::string_view module_in(std::string_view file) {
  const size_t at = file.find(kBytecodeMagic);
  if (at == std::string_view::npos || at < sizeof(uint32_t)) return file;
  uint32_t size = 0;
  std::memcpy(&size, file.data() + at - sizeof(size), sizeof(size));
  return size <= file.size() - at ? file.substr(at, size) : file;
}

}  // namespace

Result<Module> read_module(std::string bytes, std::string_view name) {
  Module module;
  const std::string_view stored = module_in(module.keep(std::move(bytes)));
  const bool bytecode = stored.starts_with(kBytecodeMagic);
  if (!bytecode && stored.find('\0') != std::string_view::npos)
    return fail(Code::invalid, "neither StableHLO text nor MLIR bytecode, which begins with 4D 4C EF 52",
                std::string(name));
  const auto read = bytecode ? read_bytecode(stored, module) : read_text(stored, name, module);
  if (read) return module;
  const Error& e = read.error();
  return fail(e.code, e.message, e.where.empty() ? std::string(name) : cat(name, ":", bytecode ? " " : "", e.where));
}

}  // namespace trine::front::stablehlo
