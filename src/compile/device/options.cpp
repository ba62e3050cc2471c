// Names of casts; see options.h.
#include "compile/device/options.h"

#include "base/text.h"

namespace trine::compile {

Result<DeviceOptions> device_options(std::string_view auto_cast, std::string_view type) {
  DeviceOptions out;
  if (auto_cast == "none") return out;
  if (auto_cast != "matmult" && auto_cast != "all")
    return fail(Code::invalid, cat("auto-cast \"", auto_cast, "\"; expected none, matmult or all"));
  constexpr std::pair<std::string_view, Dtype> kTypes[] = {
      {"bf16", Dtype::bf16}, {"f16", Dtype::f16}, {"fp16", Dtype::f16}, {"tf32", Dtype::tf32}, {"f8", Dtype::f8e4m3}};
  for (const auto& [name, dtype] : kTypes)
    if (type == name) {
      out.dots.cast = dtype;
      return out;
    }
  return fail(Code::invalid, cat("auto-cast type \"", type, "\"; expected bf16, f16, tf32 or f8"));
}

}  // namespace trine::compile
