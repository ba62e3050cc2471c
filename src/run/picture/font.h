// Letters for PNG pictures: each is a few pen strokes on a grid of tenths of the font's size.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trine::run {

struct Glyph {
  uint32_t code = 0;
  int width = 4;
  // Strokes parted by blanks, each a row of points, two digits a point: x from the left, y from 2 below the baseline.
  // Small letters reach y 7, capitals 9.
  std::string_view strokes = {};
};

const Glyph& glyph(uint32_t code_point);  // a box when there is none
std::vector<uint32_t> code_points(std::string_view utf8);

}  // namespace trine::run
