// Place: gives every tensor of SBUF and PSUM an address, from its first use to its last in program order. The next
// tensor goes after the one before and wraps around at the end, so that an address is used again as late as possible:
// loads then run ahead of the work by themselves.
#pragma once

#include <optional>

#include "front/nki/complaint.h"
#include "front/nki/kernel.h"

namespace trine::front {

// What does not fit, or nothing.
std::optional<Complaint> place(Kernel& kernel);

}  // namespace trine::front
