// Listings: everything that decides what a compiled program does, as text that two builds can be compared by.
// Not a format: nobody reads them back. Invariant: equal listings run the same steps or the same instructions.
#pragma once

#include <string>

#include "api/device.h"
#include "api/executable.h"

namespace trine::api {

std::string listing(const Executable& executable);  // the host plan, and how arguments and results lie
std::string listing(const Compiled& compiled);      // each part's instructions, or the graph that the host runs

}  // namespace trine::api
