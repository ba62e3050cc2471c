// A compiled program as text that MLIR reads: the signature with shardings, and the steps of the plan as custom calls,
// or one call for all where there are many. Programs for one device are shown otherwise (pjrt/hlo_program.h).
#pragma once

#include <string>

#include "api/executable.h"

namespace trine::api {

std::string program_text(const Executable& executable);
std::string step_name(const arch::Step& step);  // what it does, in a few words

}  // namespace trine::api
