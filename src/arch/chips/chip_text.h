// Everything a program can depend on of a chip, as one line: part of the keys of what was made for it.
#pragma once

#include <string>

#include "arch/chips/chip.h"

namespace trine::arch {

std::string chip_text(const Chip& chip);

}  // namespace trine::arch
