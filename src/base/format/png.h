// PNG (8-bit RGB) from a buffer of pixels. A writer only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trine {

struct Pixels {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // row by row from the top, three bytes a pixel

  Pixels(int w, int h) : width(w), height(h), rgb(static_cast<size_t>(w) * static_cast<size_t>(h) * 3) {}
};

std::string png(const Pixels& image);

}  // namespace trine
