// A StableHLO program as instructions of a chip: front-end and device compiler in a row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/chip.h"
#include "arch/program.h"
#include "base/result.h"

namespace trine::api {

struct DeviceChoice {
  std::string auto_cast = "none";       // none, matmult or all
  std::string auto_cast_type = "bf16";  // bf16, f16, tf32, f8
};

// artifact: StableHLO, portable artifact or text.
Result<arch::Program> compile_for_device(std::string artifact, const arch::Chip& chip, const DeviceChoice& choice);

}  // namespace trine::api
