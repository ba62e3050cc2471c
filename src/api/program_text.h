// A compiled program as text that MLIR reads: the signature with shardings, and the steps of the plan as custom calls,
// or one call for all where there are many. Programs for one device are shown otherwise (pjrt/hlo_program.h).
#pragma once

#include <string>

#include "api/executable.h"

namespace trine::api {

std::string program_text(const Executable& executable);
// What is shown of a plan: where inputs or outputs are not row-major, their slots with the program's dims, and no
// steps.
std::shared_ptr<const arch::HostPlan> shown_plan(const Executable& executable);
std::string step_name(const arch::Step& step);  // what it does, in a few words

}  // namespace trine::api
