// The device compiler's options by the names that people give them.
#pragma once

#include <string_view>

#include "compile/device/device.h"

namespace trine::compile {

// auto_cast: none, matmult or all; type: bf16, f16, tf32 or f8.
Result<DeviceOptions> device_options(std::string_view auto_cast, std::string_view type);

}  // namespace trine::compile
