// What programs may take, as the user set it; see base/stop.h.
#pragma once

#include "base/result.h"
#include "base/stop.h"

namespace trine::api {

// TRINE_COMPILE_SECONDS, TRINE_RUN_SECONDS, TRINE_OPS and TRINE_HOST_BYTES; 0 is no limit.
Result<void> set_limits_from_environment();

}  // namespace trine::api
