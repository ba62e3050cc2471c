// The device compiler behind its options; see device.h.
#include "api/device.h"

#include "base/text.h"
#include "compile/device/device.h"
#include "front/stablehlo/graph.h"
#include "front/stablehlo/read.h"

namespace trine::api {

static Result<compile::DeviceOptions> options_of(const DeviceChoice& choice) {
  compile::DeviceOptions out;
  if (choice.auto_cast == "none") return out;
  if (choice.auto_cast != "matmult" && choice.auto_cast != "all")
    return fail(Code::invalid, cat("auto-cast \"", choice.auto_cast, "\"; expected none, matmult or all"));
  constexpr std::pair<std::string_view, Dtype> kTypes[] = {
      {"bf16", Dtype::bf16}, {"f16", Dtype::f16}, {"fp16", Dtype::f16}, {"tf32", Dtype::tf32}, {"f8", Dtype::f8e4m3}};
  for (const auto& [name, dtype] : kTypes)
    if (choice.auto_cast_type == name) {
      out.dots.cast = dtype;
      return out;
    }
  return fail(Code::invalid, cat("auto-cast type \"", choice.auto_cast_type, "\"; expected bf16, f16, tf32 or f8"));
}

Result<arch::Program> compile_for_device(std::string artifact, const arch::Chip& chip, const DeviceChoice& choice) {
  const auto options = TRY(options_of(choice));
  const auto module = TRY(front::stablehlo::read_module(std::move(artifact), "program"));
  return compile::compile_device(TRY(front::stablehlo::to_graph(module)), chip, options);
}

}  // namespace trine::api
