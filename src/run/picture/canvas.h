// Canvas: a list of shapes in pixels that prints itself as SVG (light and dark) or as PNG (light, two pixels a unit).
// Knows nothing of programs; picture.cpp decides what is drawn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trine::run {

// Colours by role. The engines' are Okabe and Ito's, told apart by colour-blind readers, on white and on black.
// on_dark, on_light: letters on a dark or a light engine colour.
enum class Ink : uint8_t {
  paper,
  text,
  faint,
  grid,
  band,
  shade,
  tensor,
  vector,
  scalar,
  gpsimd,
  sync,
  dma,
  other,
  on_dark,
  on_light,
  count
};

enum class Anchor : uint8_t { start, middle, end };

class Canvas {
 public:
  Canvas(double width, double height) : width_(width), height_(height) {}

  // `title` is shown when the pointer rests on it.
  void rect(double x, double y, double w, double h, Ink ink, std::string title = {});
  // Columns of the given heights, upwards from `base`, side by side from x on.
  void columns(double x, double base, double column_width, std::vector<float> heights, Ink ink);
  void text(double x, double y, std::string_view s, double size, Ink ink, Anchor anchor = Anchor::start,
            bool bold = false);

  std::string svg() const;
  std::string png() const;

 private:
  enum class Kind : uint8_t { rect, columns, text };
  struct Shape {
    Kind kind;
    Ink ink;
    double x, y, w, h;  // columns: w of one, y the base; text: h its size
    std::string words;
    std::vector<float> heights;
    Anchor anchor = Anchor::start;
    bool bold = false;
  };

  double width_, height_;
  std::vector<Shape> shapes_;
};

double text_width(std::string_view s, double size);  // in our own letters; a browser's are about as wide

}  // namespace trine::run
