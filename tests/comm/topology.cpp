// Topology: neighbours as the driver lists them, routes over links only, rings that cover a level and share no link.
#include "comm/topology.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::comm;
using arch::find_instance;
using arch::Instance;
using arch::Level;
using arch::Wiring;

static std::string listed(const Instance& instance, int64_t chip) {
  std::vector<std::string> out;
  for (const Neighbour& n : neighbours(instance, chip)) out.push_back(cat(n.chip));
  return join(out, ", ");
}

static bool beside(const Instance& instance, int64_t a, int64_t b) {
  const auto list = neighbours(instance, a);
  return std::any_of(list.begin(), list.end(), [&](const Neighbour& n) { return n.chip == b; });
}

TEST_CASE("neighbours as the driver lists them") {
  const Instance &torus = **find_instance("trn1.32xlarge"), &line = **find_instance("inf2.24xlarge"),
                 &ring12 = **find_instance("inf2.48xlarge"), &ultra = **find_instance("trn2-ultraserver");
  CHECK_EQ(listed(torus, 0), "12, 3, 4, 1");
  CHECK_EQ(listed(torus, 10), "6, 9, 14, 11");
  CHECK_EQ(listed(torus, 15), "11, 14, 3, 12");
  CHECK_EQ(listed(line, 0), "1");
  CHECK_EQ(listed(line, 5), "4");
  CHECK_EQ(listed(ring12, 0), "11, 1");
  CHECK_EQ(listed(ultra, 21), "17, 20, 25, 22, 5, 37");  // its own torus, then its number in the hosts before and after
  CHECK_EQ(listed(**find_instance("trn1.2xlarge"), 0), "");
}

TEST_CASE("wires go both ways and routes follow them") {
  for (const Instance& i : arch::all_instances())
    for (int64_t a = 0; a < i.chips; ++a) {
      for (const Neighbour& n : neighbours(i, a)) {
        REQUIRE(n.chip >= 0);
        REQUIRE(n.chip < i.chips);
        REQUIRE(beside(i, n.chip, a));
      }
      const int64_t b = (a * 7 + 3) % i.chips;
      int64_t at = a;
      for (const int64_t next : route(i, a, b)) {
        INFO(i.name << ": " << a << " to " << b << " steps from " << at << " to " << next);
        REQUIRE(beside(i, at, next));
        at = next;
      }
      CHECK(at == b);
      CHECK(hops(i, a, b) == hops(i, b, a));
    }
}

TEST_CASE("the farthest chips") {
  const auto diameter = [](const Instance& i) {
    int64_t most = 0;
    for (int64_t b = 0; b < i.chips; ++b) most = std::max(most, hops(i, 0, b));
    return most;
  };
  CHECK(diameter(**find_instance("trn2.48xlarge")) == 4);
  CHECK(diameter(**find_instance("trn2-ultraserver")) == 6);
  CHECK(diameter(**find_instance("inf2.48xlarge")) == 6);
  CHECK(diameter(**find_instance("trn3-gen2-ultraserver")) == 1);
}

static std::set<std::pair<int64_t, int64_t>> links_of(const std::vector<int64_t>& walk) {
  std::set<std::pair<int64_t, int64_t>> out;
  for (size_t i = 0; i < walk.size(); ++i) out.insert(std::minmax(walk[i], walk[(i + 1) % walk.size()]));
  return out;
}

TEST_CASE("rings visit each place once over links; two on a square torus share none") {
  for (const auto& [rows, columns] : {std::pair{4, 4}, {3, 3}, {5, 5}, {8, 8}, {2, 4}, {4, 3}, {6, 8}}) {
    Instance i = **arch::find_instance("trn1.32xlarge");
    i.levels = {Level{.wiring = Wiring::torus, .sides = {rows, columns}}};
    i.chips = rows * columns;
    INFO(rows << " x " << columns);
    std::set<std::pair<int64_t, int64_t>> used;
    const int count = ring_count(i.levels[0]);
    CHECK(count == (rows == columns ? 2 : 1));
    for (int which = 0; which < count; ++which) {
      const auto walk = ring(i.levels[0], which);
      CHECK(std::set(walk.begin(), walk.end()).size() == static_cast<size_t>(i.chips));
      for (const auto& [a, b] : links_of(walk)) {
        CHECK(beside(i, a, b));
        CHECK(used.insert({a, b}).second);
      }
    }
  }
  CHECK(ring(Level{.wiring = Wiring::torus, .sides = {3, 5}}).empty());
  CHECK(ring(Level{.wiring = Wiring::ring, .sides = {12}}).size() == 12);
  CHECK(ring(Level{.wiring = Wiring::ring, .sides = {12}}, 1).empty());
}
