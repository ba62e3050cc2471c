// The colours of a picture, one row per Ink.
#pragma once

#include <string_view>

namespace trine::run {

struct InkRow {
  std::string_view name, light, dark;  // name: the SVG class
};

inline constexpr InkRow kInks[] = {
    {"paper", "#ffffff", "#15181c"},  {"text", "#1f2328", "#e6edf3"},    {"faint", "#656d76", "#9198a1"},
    {"grid", "#e4e7eb", "#2b3138"},   {"band", "#f3f4f6", "#1d2228"},    {"shade", "#e9ebee", "#242a31"},
    {"tensor", "#0072b2", "#3b9ddb"}, {"vector", "#e69f00", "#e69f00"},  {"scalar", "#009e73", "#19b88b"},
    {"gpsimd", "#cc79a7", "#cc79a7"}, {"sync", "#8a6d3b", "#b8995f"},    {"dma", "#d55e00", "#e8772a"},
    {"other", "#9aa3ad", "#6f7882"},  {"on_dark", "#ffffff", "#ffffff"}, {"on_light", "#1f2328", "#1f2328"},
};

}  // namespace trine::run
