// A compiled program in a form that MLIR reads. A small one for one device, without ops of Shardy, is shown as it came;
// else text: the signature with shardings, and the steps of the plan as custom calls, or one call for all where there
// are many. Who asks for it (JAX, four times a compilation) turns it into HLO each time.
#pragma once

#include <string>

#include "api/executable.h"

namespace trine::api {

std::string program_text(const Executable& executable);

}  // namespace trine::api
