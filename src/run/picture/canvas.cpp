// The shapes and their SVG form; see canvas.h. Pixels are png.cpp's.
#include "run/picture/canvas.h"

#include <cmath>

#include "base/format/json.h"
#include "base/text.h"
#include "run/picture/ink.h"

namespace trine::run {

void Canvas::rect(double x, double y, double w, double h, Ink ink, std::string title) {
  shapes_.push_back({Kind::rect, ink, x, y, w, h, std::move(title), {}});
}

void Canvas::columns(double x, double base, double column_width, std::vector<float> heights, Ink ink) {
  shapes_.push_back({Kind::columns, ink, x, base, column_width, 0, {}, std::move(heights)});
}

void Canvas::text(double x, double y, std::string_view s, double size, Ink ink, Anchor anchor, bool bold) {
  shapes_.push_back({Kind::text, ink, x, y, 0, size, std::string(s), {}, anchor, bold});
}

namespace {

// Hundredths of a pixel, without trailing zeros.
std::string number(double v) { return shortest(std::round(v * 100) / 100); }

std::string escaped(std::string_view s) {
  const bool plain = !is_utf8(s);  // names may hold any bytes, XML may not
  std::string out;
  for (const char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (plain && static_cast<unsigned char>(c) >= 0x80)
      out += '?';
    else if (c == '\n' || static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

std::string style() {
  std::string light, dark;
  for (size_t i = 0; i < static_cast<size_t>(Ink::count); ++i) {
    light += cat(".", kInks[i].name, "{fill:", kInks[i].light, "}");
    if (kInks[i].dark != kInks[i].light) dark += cat(".", kInks[i].name, "{fill:", kInks[i].dark, "}");
  }
  return cat("<style>text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}", light,
             "@media(prefers-color-scheme:dark){", dark, "}</style>\n");
}

std::string outline(double x, double base, double width, const std::vector<float>& heights) {
  std::string d;
  for (size_t i = 0; i < heights.size();) {
    if (heights[i] <= 0) {
      ++i;
      continue;
    }
    d += cat("M", number(x + width * static_cast<double>(i)), " ", number(base));
    while (i < heights.size() && heights[i] > 0) {
      size_t n = i;
      const std::string y = number(base - heights[i]);
      while (n < heights.size() && heights[n] > 0 && number(base - heights[n]) == y) ++n;
      d += cat("V", y, "H", number(x + width * static_cast<double>(n)));
      i = n;
    }
    d += cat("V", number(base), "Z");
  }
  return d;
}

}  // namespace

std::string Canvas::svg() const {
  static constexpr std::string_view kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", number(width_), " ",
                        number(height_), "\" width=\"", number(width_), "\" height=\"", number(height_), "\">\n",
                        style(), "<rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n");
  for (const Shape& s : shapes_) {
    const std::string_view ink = kInks[static_cast<size_t>(s.ink)].name;
    switch (s.kind) {
      case Kind::rect:
        out += cat("<rect class=\"", ink, "\" x=\"", number(s.x), "\" y=\"", number(s.y), "\" width=\"", number(s.w),
                   "\" height=\"", number(s.h), "\"");
        out += s.words.empty() ? "/>\n" : cat("><title>", escaped(s.words), "</title></rect>\n");
        break;
      case Kind::columns:
        out += cat("<path class=\"", ink, "\" d=\"", outline(s.x, s.y, s.w, s.heights), "\"/>\n");
        break;
      case Kind::text:
        out += cat("<text class=\"", ink, "\" x=\"", number(s.x), "\" y=\"", number(s.y), "\" font-size=\"",
                   number(s.h), "\"", kAnchors[static_cast<size_t>(s.anchor)], s.bold ? " font-weight=\"600\"" : "",
                   ">", escaped(s.words), "</text>\n");
        break;
    }
  }
  return out + "</svg>\n";
}

}  // namespace trine::run
