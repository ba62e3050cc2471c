// Shares of prices and watts; see cost.h.
#include "run/report/cost.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace trine::run {

namespace {

bool was_estimated(const arch::Sources& sources, std::string_view path) {
  const auto found = sources.find(path);
  return found == sources.end() || !found->second.starts_with("doc");
}

}  // namespace

Cost cost_of(const arch::Instance& instance, const Workload& workload) {
  Cost out;
  const double all = static_cast<double>(instance.cores());
  const double share = workload.cores > 0 ? workload.cores / all : 1, seconds = workload.ns * 1e-9;
  const double results = std::max(workload.results, 1e-9);
  for (const arch::Price& p : instance.prices) {
    const double usd = p.usd_per_hour * share * seconds / 3600;
    out.rents.push_back(
        {std::string(arch::rent_text(p.rent)), p.usd_per_hour, usd, usd / results * 1e6, p.region, p.date});
  }
  const auto& chip = instance.chip->power;
  const double chips = static_cast<double>(instance.chips) * share;
  const double by_use =
      chip.idle_watts + (chip.chip_watts - chip.idle_watts) * std::clamp(workload.utilisation, 0.0, 1.0);
  out.chip_joules = workload.chip_joules ? *workload.chip_joules : by_use * chips * seconds;
  out.chip_watts = workload.chip_joules && seconds > 0 ? *workload.chip_joules / seconds : by_use * chips;
  out.host_watts = instance.power.host_watts * share;
  out.wall_watts = (out.chip_watts + out.host_watts) * instance.power.pue_factor;
  out.wall_joules = (out.chip_joules + out.host_watts * seconds) * instance.power.pue_factor;
  out.wall_joules_per_result = out.wall_joules / results;
  // Between idle and full, and by instruction, everything is our model.
  out.is_estimate = workload.chip_joules || workload.utilisation < 1 ||
                    was_estimated(instance.chip->sources, "power.chip_watts") ||
                    was_estimated(instance.sources, "power.host_watts");
  return out;
}

Json Cost::json() const {
  Json list = Json::array();
  for (const RentCost& r : rents)
    list.push(Json::object()
                  .set("way", r.name)
                  .set("usd_per_hour", r.usd_per_hour)
                  .set("usd", r.usd)
                  .set("usd_per_million", r.usd_per_million)
                  .set("region", r.region)
                  .set("date", r.date));
  return Json::object()
      .set("rents", std::move(list))
      .set("chip_watts", chip_watts)
      .set("host_watts", host_watts)
      .set("wall_watts", wall_watts)
      .set("chip_joules", chip_joules)
      .set("wall_joules", wall_joules)
      .set("wall_joules_per_result", wall_joules_per_result)
      .set("power_is_estimate", is_estimate);
}

std::string dollars(double usd) {
  if (usd == 0) return "$0";
  const int digits = std::clamp(2 - static_cast<int>(std::floor(std::log10(usd))), 2, 12);
  return cat("$", fixed(usd, digits));
}

std::string joules(double j) {
  if (j >= 1) return cat(fixed(j, 1), " J");
  return j >= 1e-3 ? cat(fixed(j * 1e3, 1), " mJ") : cat(fixed(j * 1e6, 1), " µJ");
}

}  // namespace trine::run
