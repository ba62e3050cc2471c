// Reports added and continued: numbers that grow do, shares go by time, peaks are the largest, and what a report costs
// follows from the time and joules that it comes to.
#include "run/report/sum.h"

#include <doctest/doctest.h>

namespace trine::run {

static Report report(double ns, int64_t flops, double mfu, int64_t peak) {
  Report r;
  r.instance = "trn2.3xlarge";
  r.time_ns = ns;
  r.flops = flops;
  r.mfu = mfu;
  r.sbuf_peak_bytes = peak;
  r.traffic.hbm_read = flops / 10;
  r.bound = ns > 150 ? Bound::dma : Bound::tensor;
  r.engines = {{"tensor", ns / 2, 0.5, 3, {{"dma", ns / 4}}}, {"dma", ns / 10, 0.1, 1, {}}};
  r.notes = {ns > 150 ? "long" : "short"};
  r.cost.chip_joules = ns * 1e-9;
  return r;
}

static const arch::Instance& instance() { return **arch::find_instance("trn2.3xlarge"); }

TEST_CASE("parts one after the other") {
  Report parts[] = {report(100, 1000, 0.5, 7), report(300, 5000, 0.1, 5)};
  parts[0].engines[0].waits_ns.emplace_back("issue", 200);
  const Report all = added(parts, instance());
  CHECK(all.time_ns == 400);
  CHECK(all.flops == 6000);
  CHECK(all.traffic.hbm_read == 600);
  CHECK(all.mfu == doctest::Approx((0.5 * 100 + 0.1 * 300) / 400));
  CHECK(all.sbuf_peak_bytes == 7);
  CHECK(all.bound == Bound::dma);  // of the longest
  CHECK(all.notes == std::vector<std::string>{"short", "long"});
  CHECK(all.engines[0].busy_ns == 200);
  CHECK(all.engines[0].busy_share == doctest::Approx(0.5));
  CHECK(all.engines[0].waits_ns == std::vector<std::pair<std::string, double>>{{"issue", 200}, {"dma", 100}});
  CHECK(all.cost.chip_joules == doctest::Approx(400e-9));
  const Cost same = cost_of(instance(), {.ns = 400, .cores = 1, .chip_joules = 400e-9});
  CHECK(all.cost.rents[0].usd == doctest::Approx(same.rents[0].usd));
  CHECK(added({parts, 1}, instance()).json().text() == parts[0].json().text());
}

TEST_CASE("a longer program from two shorter ones") {
  const Report few = report(100, 1000, 0.5, 7), more = report(160, 2001, 0.5, 9);
  const Report all = extended(few, more, 10, instance());
  CHECK(all.time_ns == 700);
  CHECK(all.flops == 11010);
  CHECK(all.mfu == doctest::Approx(0.5));
  CHECK(all.sbuf_peak_bytes == 9);
  CHECK(all.engines[0].waits_ns[0].second == doctest::Approx(25 + 10 * 15));
  CHECK(extended(few, more, 0.5, instance()).flops == 1500);  // whole numbers are cut off
}

TEST_CASE("programs evenly from the first to the last") {
  const Report all = between(report(100, 1000, 0.4, 7), report(300, 2000, 0.2, 5), 8, instance());
  CHECK(all.time_ns == 1600);
  CHECK(all.flops == 12000);
  CHECK(all.mfu == doctest::Approx((0.4 * 100 + 0.2 * 300) / 400));
}

}  // namespace trine::run
