// A compiled program for one device as an HloModuleProtoWithConfig: what JAX would make of its text, in a fraction of
// the time. It asks four times a compilation. Field numbers are those of XLA's hlo.proto, xla_data.proto and xla.proto.
#pragma once

#include <string>

#include "api/executable.h"

namespace trine::api::pjrt {

// Empty where only text will do: several devices, formats of less than a byte.
std::string hlo_program(const api::Executable& executable);

}  // namespace trine::api::pjrt
