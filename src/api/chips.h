// Chips for whoever names one: a built-in name, the path of a chip file, or a chip file's JSON itself.
#pragma once

#include <string>

#include "arch/chips/chip.h"

namespace trine::api {

// Chips from files live as long as the process; the same text is the same chip.
Result<const arch::Chip*> find_chip(const std::string& name);

}  // namespace trine::api
