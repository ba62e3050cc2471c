// A canvas as pixels: rectangles by the area they cover, letters drawn as pen strokes.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/format/png.h"
#include "run/picture/canvas.h"
#include "run/picture/font.h"
#include "run/picture/ink.h"

namespace trine::run {

namespace {

constexpr double kScale = 2;  // pixels a unit: sharp on dense screens
constexpr double kLetterGap = 1.6;

uint8_t hex_pair(std::string_view s, size_t at) {
  const auto digit = [&](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  return static_cast<uint8_t>(digit(s[at]) * 16 + digit(s[at + 1]));
}

class Painter {
 public:
  Painter(double width, double height)
      : image_(static_cast<int>(std::ceil(width * kScale)), static_cast<int>(std::ceil(height * kScale))) {}

  void ink(Ink i) {
    const std::string_view light = kInks[static_cast<size_t>(i)].light;
    colour_ = {hex_pair(light, 1), hex_pair(light, 3), hex_pair(light, 5)};
  }

  void rect(double x, double y, double w, double h) {
    const double x0 = x * kScale, y0 = y * kScale, x1 = (x + w) * kScale, y1 = (y + h) * kScale;
    for (int py = std::max(0, static_cast<int>(y0)); py < std::min<double>(image_.height, y1); ++py) {
      const double down = std::min(y1, py + 1.0) - std::max(y0, static_cast<double>(py));
      for (int px = std::max(0, static_cast<int>(x0)); px < std::min<double>(image_.width, x1); ++px)
        blend(px, py, down * (std::min(x1, px + 1.0) - std::max(x0, static_cast<double>(px))));
    }
  }

  void text(double x, double y, std::string_view s, double size, bool bold) {
    const double unit = size * kScale / 10, pen = (bold ? 0.62 : 0.42) * unit;
    double at = x * kScale;
    for (const uint32_t c : code_points(s)) {
      const Glyph& g = glyph(c);
      std::vector<Segment> lines;
      for (size_t i = 0; i + 3 < g.strokes.size();) {
        if (g.strokes[i + 2] == ' ') {
          i += 3;
          continue;
        }
        const auto px = [&](size_t k) { return at + (g.strokes[k] - '0') * unit; };
        const auto py = [&](size_t k) { return y * kScale - (g.strokes[k + 1] - '2') * unit; };
        lines.push_back({px(i), py(i), px(i + 2), py(i + 2)});
        i += 2;
      }
      stroke(lines, pen);
      at += (g.width + kLetterGap) * unit;
    }
  }

  std::string png() const { return trine::png(image_); }

 private:
  struct Segment {
    double x0, y0, x1, y1;
    double distance(double x, double y) const {
      const double dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy;
      const double t = length > 0 ? std::clamp(((x - x0) * dx + (y - y0) * dy) / length, 0.0, 1.0) : 0;
      return std::hypot(x - x0 - t * dx, y - y0 - t * dy);
    }
  };

  void stroke(const std::vector<Segment>& lines, double pen) {
    if (lines.empty()) return;
    double x0 = 1e9, y0 = 1e9, x1 = 0, y1 = 0;
    for (const Segment& l : lines) {
      x0 = std::min({x0, l.x0, l.x1}), x1 = std::max({x1, l.x0, l.x1});
      y0 = std::min({y0, l.y0, l.y1}), y1 = std::max({y1, l.y0, l.y1});
    }
    const double edge = pen + 1;
    for (int py = std::max(0, static_cast<int>(y0 - edge)); py < std::min<double>(image_.height, y1 + edge); ++py)
      for (int px = std::max(0, static_cast<int>(x0 - edge)); px < std::min<double>(image_.width, x1 + edge); ++px) {
        double nearest = 1e9;
        for (const Segment& l : lines) nearest = std::min(nearest, l.distance(px + 0.5, py + 0.5));
        blend(px, py, std::clamp(pen + 0.5 - nearest, 0.0, 1.0));
      }
  }

  void blend(int x, int y, double share) {
    uint8_t* p = &image_.rgb[(static_cast<size_t>(y) * static_cast<size_t>(image_.width) + static_cast<size_t>(x)) * 3];
    for (size_t i = 0; i < 3; ++i) p[i] = static_cast<uint8_t>(std::lround(p[i] + share * (colour_[i] - p[i])));
  }

  Pixels image_;
  std::array<uint8_t, 3> colour_{};
};

}  // namespace

double text_width(std::string_view s, double size) {
  double units = 0;
  for (const uint32_t c : code_points(s)) units += glyph(c).width + kLetterGap;
  return std::max(0.0, units - kLetterGap) * size / 10;
}

std::string Canvas::png() const {
  Painter p(width_, height_);
  p.ink(Ink::paper);
  p.rect(0, 0, width_, height_);
  for (const Shape& s : shapes_) {
    p.ink(s.ink);
    switch (s.kind) {
      case Kind::rect:
        p.rect(s.x, s.y, s.w, s.h);
        break;
      case Kind::columns:
        for (size_t i = 0; i < s.heights.size(); ++i)
          if (s.heights[i] > 0) p.rect(s.x + s.w * static_cast<double>(i), s.y - s.heights[i], s.w, s.heights[i]);
        break;
      case Kind::text: {
        const double width = text_width(s.words, s.h);
        const double back = s.anchor == Anchor::start ? 0 : s.anchor == Anchor::middle ? width / 2 : width;
        p.text(s.x - back, s.y, s.words, s.h, s.bold);
        break;
      }
    }
  }
  return p.png();
}

}  // namespace trine::run
