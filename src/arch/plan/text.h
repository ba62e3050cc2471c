// A host plan as text: everything that decides what the native executor runs, one line for each slot, constant and
// step, nested plans indented. For people and for `make replay`; nobody reads it back.
// Invariant: two plans with the same text run the same steps on the same memory.
#pragma once

#include <string>

#include "arch/plan/plan.h"

namespace trine::arch {

std::string text(const HostPlan& plan);

}  // namespace trine::arch
