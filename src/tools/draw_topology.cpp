// Rows of [ n ] with arrows between them; `*` is a link that wraps around.
#include "tools/draw_topology.h"

#include "base/text.h"

namespace trine::tools {

namespace {

using arch::Instance;
using arch::Level;
using arch::Wiring;

std::string box(int64_t chip) {
  std::string n = cat(chip);
  if (n.size() < 2) n.insert(0, " ");
  if (n.size() < 3) n += " ";
  return cat("[", n, "]");
}

// "*––►[ 0 ]◄––►[ 1 ]◄––*"
std::string row_of(int64_t first, int64_t count, bool wraps) {
  std::string out = wraps ? "*––►" : "    ";
  for (int64_t i = 0; i < count; ++i) out += cat(i ? "◄––►" : "", box(first + i));
  return out + (wraps ? "◄––*\n" : "\n");
}

std::string marks(std::string_view mark, int64_t columns) {
  std::string out = "      ";
  for (int64_t c = 0; c < columns; ++c) out += cat(c ? "        " : "", mark);
  return out + "\n";
}

std::string torus(const Level& level, int64_t first) {
  const int64_t rows = level.sides[0], columns = level.sides[1];
  std::string out = marks("*", columns) + marks("│", columns) + marks("▼", columns);
  for (int64_t r = 0; r < rows; ++r) {
    out += row_of(first + r * columns, columns, true) + marks("▲", columns) + marks("│", columns);
    out += marks(r + 1 < rows ? "▼" : "*", columns);
  }
  return out;
}

std::string switched(int64_t first, int64_t count) {
  std::string out = "    ";
  for (int64_t i = 0; i < count; ++i) {
    if (i && i % 8 == 0) out += "\n    ";
    out += cat(i % 8 ? " " : "", box(first + i));
  }
  return out + "\n";
}

std::string draw_level(const Level& level, int64_t first) {
  switch (level.wiring) {
    case Wiring::torus:
      return torus(level, first);
    case Wiring::all_to_all:
      return switched(first, level.size());
    case Wiring::ring:
      return row_of(first, level.size(), true);
    case Wiring::line:
      break;
  }
  return row_of(first, level.size(), false);
}

std::string between(const Level& level, int64_t inner) {
  const std::string rate = cat(level.link_bytes_per_ns, " GB/s each way");
  if (level.wiring == Wiring::all_to_all)
    return cat("a switch joins all of these groups of ", inner, ", ", rate, " a chip");
  return cat("equal places of the ", level.size(), " groups of ", inner, " form a ", arch::wiring_name(level.wiring),
             ", ", rate, " a link");
}

}  // namespace

std::string draw_topology(const Instance& instance) {
  if (instance.levels.empty()) return "    [ 0 ]\n\none chip, no links\n";
  const Level& inner = instance.levels[0];
  std::string out;
  for (int64_t first = 0; first < instance.chips; first += inner.size()) {
    if (instance.levels.size() > 1) out += cat("group ", first / inner.size(), "\n");
    out += draw_level(inner, first);
  }
  out += "\nLegend:\n\n";
  if (inner.wiring == Wiring::torus || inner.wiring == Wiring::ring) out += "    *––► = Wrap-around link\n";
  out +=
      cat("    ", inner.wiring == Wiring::all_to_all ? "a switch joins all chips of a group, " : "each link carries ",
          inner.link_bytes_per_ns, " GB/s each way\n");
  int64_t size = inner.size();
  for (size_t l = 1; l < instance.levels.size(); ++l) {
    out += cat("    ", between(instance.levels[l], size), "\n");
    size *= instance.levels[l].size();
  }
  return out;
}

}  // namespace trine::tools
