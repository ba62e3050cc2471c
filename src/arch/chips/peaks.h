// The maker's published figures, each with how it follows from a chip's parts. A test and docs/chips.md compare both;
// where headline and clock disagree, the parts are what Trine models.
#pragma once

#include <span>
#include <string_view>

#include "arch/chips/chip.h"

namespace trine::arch {

struct PeakRow {
  std::string_view name, unit, meaning;
  double (*from_parts)(const Chip&) = nullptr;  // null: no part of the model yields it
};
std::span<const PeakRow> peak_rows();
const PeakRow* find_peak(std::string_view name);

}  // namespace trine::arch
