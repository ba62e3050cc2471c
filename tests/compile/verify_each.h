// For tests that compile: what every pass leaves is verified, as TRINE_VERIFY_EACH=1 asks for from outside.
#pragma once

#include "compile/device/device.h"
#include "compile/host/native.h"

namespace trine::compile {

inline const PassObserver kVerifyEach{.verify_each = true};
inline const NativeOptions kVerifiedPlan{.observer = kVerifyEach};
inline const DeviceObserver kVerifiedProgram{.passes = kVerifyEach};

}  // namespace trine::compile
