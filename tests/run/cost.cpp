// Costs by hand: an hour of a machine is its price and its watts; shares are shares.
#include "run/report/cost.h"

#include "tests/testing.h"

namespace trine::run {

constexpr double kHour = 3.6e12;  // ns

TEST_CASE("dollars: an hour, a share of it, a million results") {
  struct Row {
    const char* instance;
    Workload workload;
    const char* rate;
    double usd, usd_per_million;
  };
  const Row rows[] = {
      {"trn1.2xlarge", {.ns = kHour}, "on-demand", 1.34375, 1.34375e6},
      {"trn1.2xlarge", {.ns = kHour, .cores = 1}, "on-demand", 1.34375 / 2, 1.34375e6 / 2},
      {"trn1.32xlarge", {.ns = kHour, .results = 1000}, "reserved, 3 years", 8.197, 8197},
      {"inf2.xlarge", {.ns = 1e6, .cores = 1}, "reserved", 0.478 / 2 / 3.6e6, 0.478 / 2 / 3.6},
      {"trn2.48xlarge", {.ns = kHour / 2}, "capacity block", 35.7608 / 2, 35.7608e6 / 2},
  };
  for (const Row& row : rows) {
    INFO(row.instance << " " << row.rate);
    const Cost cost = cost_of(**arch::find_instance(row.instance), row.workload);
    bool found = false;
    for (const RentCost& r : cost.rents) {
      if (r.name != row.rate) continue;
      found = true;
      CHECK(r.usd == doctest::Approx(row.usd));
      CHECK(r.usd_per_million == doctest::Approx(row.usd_per_million));
    }
    CHECK(found);
  }
  CHECK(cost_of(**arch::find_instance("trn3-gen2-ultraserver"), {.ns = 1}).rents.empty());
}

TEST_CASE("watts: chips by utilisation or by count, the host's share, the building") {
  const arch::Instance& i = **arch::find_instance("trn2.48xlarge");
  const Cost full = cost_of(i, {.ns = 1e9}), idle = cost_of(i, {.ns = 1e9, .utilisation = 0}),
             half = cost_of(i, {.ns = 1e9, .cores = 64, .results = 10});
  CHECK(full.chip_watts == 16 * 500);
  CHECK(full.host_watts == 6032);
  CHECK(full.wall_watts == doctest::Approx((8000 + 6032) * 1.14));
  CHECK(full.wall_watts == doctest::Approx(16 * 1000).epsilon(0.01));  // Rainier: about 1 kW a chip, all in
  CHECK(full.wall_joules == doctest::Approx(full.wall_watts));
  CHECK(idle.chip_watts == 16 * 100);
  CHECK(half.wall_joules == doctest::Approx(full.wall_joules / 2));
  CHECK(half.wall_joules_per_result == doctest::Approx(full.wall_joules / 20));
  CHECK_FALSE(full.is_estimate);
  CHECK(idle.is_estimate);
  const Cost counted = cost_of(i, {.ns = 1e9, .cores = 1, .chip_joules = 20});
  CHECK(counted.chip_joules == 20);
  CHECK(counted.chip_watts == 20);
  CHECK(counted.is_estimate);
  CHECK(cost_of(**arch::find_instance("trn1.2xlarge"), {.ns = 1}).is_estimate);  // its watts are not published
}

TEST_CASE("amounts for people") {
  CHECK_EQ(dollars(0), "$0");
  CHECK_EQ(dollars(1.344), "$1.34");
  CHECK_EQ(dollars(0.0000123456), "$0.0000123");
  CHECK_EQ(joules(12.34), "12.3 J");
  CHECK_EQ(joules(0.01234), "12.3 mJ");
  CHECK_EQ(joules(0.00001234), "12.3 µJ");
}

}  // namespace trine::run
