// Numbers in full and features by name; see chip_text.h.
#include "arch/chips/chip_text.h"

#include <cstdio>

#include "base/text.h"

namespace trine::arch {

std::string chip_text(const Chip& chip) {
  std::string out = chip.name;
  char number[40];
  for (const NumberRow& row : number_rows()) {
    std::snprintf(number, sizeof number, " %.17g", read_number(chip, row));
    out += number;
  }
  for (const FeatureRow& row : kFeatureRows)
    if (chip.has(row.feature)) append_text(out, cat(" ", row.name));
  return out;
}

}  // namespace trine::arch
