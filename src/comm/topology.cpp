// Neighbours, routes and rings; see topology.h.
#include "comm/topology.h"

#include <algorithm>

namespace trine::comm {

namespace {

using arch::Instance;
using arch::Level;
using arch::Wiring;

int64_t wrap(int64_t v, int64_t n) { return ((v % n) + n) % n; }

void add_once(std::vector<int64_t>& out, int64_t self, int64_t index) {
  if (index != self && !std::count(out.begin(), out.end(), index)) out.push_back(index);
}

// Indices within one level, without the levels around it.
std::vector<int64_t> indices_beside(const Level& level, int64_t index) {
  std::vector<int64_t> out;
  const int64_t n = level.size();
  switch (level.wiring) {
    case Wiring::line:
      if (index > 0) out.push_back(index - 1);
      if (index + 1 < n) out.push_back(index + 1);
      break;
    case Wiring::ring:
      add_once(out, index, wrap(index - 1, n));
      add_once(out, index, wrap(index + 1, n));
      break;
    case Wiring::torus: {
      const int64_t rows = level.sides[0], columns = level.sides[1], r = index / columns, c = index % columns;
      add_once(out, index, wrap(r - 1, rows) * columns + c);
      add_once(out, index, r * columns + wrap(c - 1, columns));
      add_once(out, index, wrap(r + 1, rows) * columns + c);
      add_once(out, index, r * columns + wrap(c + 1, columns));
      break;
    }
    case Wiring::all_to_all:
      for (int64_t p = 0; p < n; ++p) add_once(out, index, p);
      break;
  }
  return out;
}

// Steps from a to b round a ring of n, the shorter way; forward when both are equal.
void walk_ring(int64_t a, int64_t b, int64_t n, std::vector<int64_t>& out) {
  const int64_t ahead = wrap(b - a, n), step = ahead <= n - ahead ? 1 : -1;
  while (a != b) out.push_back(a = wrap(a + step, n));
}

std::vector<int64_t> route_in_level(const Level& level, int64_t a, int64_t b) {
  std::vector<int64_t> out;
  switch (level.wiring) {
    case Wiring::line:
      while (a != b) out.push_back(a += a < b ? 1 : -1);
      break;
    case Wiring::ring:
      walk_ring(a, b, level.size(), out);
      break;
    case Wiring::torus: {
      const int64_t rows = level.sides[0], columns = level.sides[1], row = a / columns;
      walk_ring(a % columns, b % columns, columns, out);
      for (int64_t& index : out) index += row * columns;
      std::vector<int64_t> down;
      walk_ring(row, b / columns, rows, down);
      for (const int64_t r : down) out.push_back(r * columns + b % columns);
      break;
    }
    case Wiring::all_to_all:
      break;  // route() jumps
  }
  return out;
}

// Square torus: each row is walked whole, then one step down (which 0); what is left are the columns, likewise (which
// 1).
std::vector<int64_t> diagonal(int64_t side, int which) {
  std::vector<int64_t> out;
  for (int64_t a = 0; a < side; ++a)
    for (int64_t k = 0; k < side; ++k) {
      const int64_t b = wrap(k - a, side);
      out.push_back(which == 0 ? a * side + b : b * side + a);
    }
  return out;
}

// Up and down (or back and forth) through a torus with an even side; the last chip is beside the first.
std::vector<int64_t> snake(int64_t rows, int64_t columns) {
  const bool by_column = columns % 2 == 0;
  const int64_t across = by_column ? columns : rows, along = by_column ? rows : columns;
  std::vector<int64_t> out;
  for (int64_t a = 0; a < across; ++a)
    for (int64_t k = 0; k < along; ++k) {
      const int64_t b = a % 2 == 0 ? k : along - 1 - k;
      out.push_back(by_column ? b * columns + a : a * columns + b);
    }
  return out;
}

}  // namespace

std::vector<Neighbour> neighbours(const Instance& instance, int64_t chip) {
  std::vector<Neighbour> out;
  int64_t inner = 1;
  for (size_t l = 0; l < instance.levels.size(); ++l) {
    const Level& level = instance.levels[l];
    const int64_t index = chip / inner % level.size(), first = chip - chip % (inner * level.size());
    for (const int64_t p : indices_beside(level, index)) {
      if (level.wiring != Wiring::all_to_all) {
        out.push_back({chip + (p - index) * inner, static_cast<int>(l)});
        continue;
      }
      for (int64_t k = 0; k < inner; ++k) out.push_back({first + p * inner + k, static_cast<int>(l)});
    }
    inner *= level.size();
  }
  return out;
}

std::vector<int64_t> route(const Instance& instance, int64_t from, int64_t to) {
  std::vector<int64_t> out;
  int64_t inner = 1, at = from;
  for (const Level& level : instance.levels) {
    const int64_t a = at / inner % level.size(), b = to / inner % level.size(), rest = at - a * inner;
    if (level.wiring == Wiring::all_to_all && a != b) {  // a switch reaches any chip within the other group
      const int64_t group = inner * level.size();
      at = from - from % group + to % group;
      out.assign(1, at);
    } else {
      for (const int64_t index : route_in_level(level, a, b)) out.push_back(at = rest + index * inner);
    }
    inner *= level.size();
  }
  return out;
}

int64_t hops(const Instance& instance, int64_t from, int64_t to) {
  return static_cast<int64_t>(route(instance, from, to).size());
}

int link_level(const Instance& instance, int64_t a, int64_t b) {
  int out = -1;
  for (size_t l = 0; l < instance.levels.size(); ++l) {
    const int64_t size = instance.levels[l].size();
    if (a % size != b % size) out = static_cast<int>(l);
    a /= size;
    b /= size;
  }
  return out;
}

int ring_count(const Level& level) {
  if (level.wiring != Wiring::torus) return 1;
  const int64_t rows = level.sides[0], columns = level.sides[1];
  if (rows == columns && rows > 2) return 2;
  return rows % 2 == 0 || columns % 2 == 0 ? 1 : 0;
}

std::vector<int64_t> ring(const Level& level, int which) {
  if (which < 0 || which >= ring_count(level)) return {};
  if (level.wiring == Wiring::torus) {
    if (ring_count(level) == 2) return diagonal(level.sides[0], which);
    return snake(level.sides[0], level.sides[1]);
  }
  std::vector<int64_t> out;
  for (int64_t index = 0; index < level.size(); ++index) out.push_back(index);
  return out;
}

}  // namespace trine::comm
