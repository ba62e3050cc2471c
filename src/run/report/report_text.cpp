// How a Report is shown: one screen of text, answer first, and the same numbers as JSON.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "run/report/report.h"

namespace trine::run {

namespace {

std::string percent(double share) { return cat(fixed(100 * share, 1), " %"); }

// Eighths of a block, 40 cells wide.
std::string bar(double share) {
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 40 * 8));
  std::string out;
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  out += kEighths[eighths % 8];
  if (eighths == 0 && share > 0) out = "▏";
  while (display_width(out) < 40) out += ' ';
  return out;
}

std::string mebibytes(int64_t bytes) { return fixed(static_cast<double>(bytes) / 1048576, 1); }

// Two times in one unit: (27.4 – 29.3 ms).
std::string range(double low_ns, double high_ns) {
  std::string low = with_unit_ns(low_ns), high = with_unit_ns(high_ns);
  const auto unit = low.substr(low.find(' '));
  if (high.ends_with(unit)) low.resize(low.size() - unit.size());
  return cat(low, " – ", high);
}

Json pairs(const std::vector<std::pair<std::string, double>>& list) {
  Json out = Json::object();
  for (const auto& [key, value] : list) out.set(key, value);
  return out;
}

}  // namespace

std::string bound_text(Bound b) {
  if (b == Bound::dma) return "data movement";
  if (b == Bound::launch) return "latency";
  if (b == Bound::collective) return "collectives";
  return cat(name(b), " engine");
}

// What passes through the memories on chip, and of HBM's bytes those that were on chip before.
static std::string traffic_text(const sim::Traffic& t) {
  const auto bytes = [](int64_t n) { return with_unit_bytes(static_cast<double>(n)); };
  std::string out = cat("SBUF ", bytes(t.sbuf_read), " read, ", bytes(t.sbuf_write), " written · PSUM ",
                        bytes(t.psum_read), " read, ", bytes(t.psum_write), " written");
  if (t.spill_save || t.spill_reload)
    out += cat(" · spilled ", bytes(t.spill_save), ", reloaded ", bytes(t.spill_reload));
  return out;
}

std::string Report::text() const {
  const double bound_busy = bound == Bound::launch ? bound_share
                            : bound == Bound::dma  ? engines.back().busy_share
                                                   : engines[static_cast<size_t>(bound)].busy_share;
  std::string out = cat(program, " on ", instance, cores == 1 ? ", one core\n" : cat(", ", cores, " cores\n"));
  out += cat("  time      ", with_unit_ns(time_ns), "   (", range(band_low_ns, band_high_ns),
             ", 90 % band)      bound by  ", bound_text(bound), ", ", percent(bound_busy),
             bound == Bound::launch ? " of the critical path\n" : " busy\n");
  out +=
      cat("  memory    SBUF ", mebibytes(sbuf_peak_bytes), " of ", mebibytes(sbuf_bytes), " MiB · PSUM ",
          psum_banks_used, " of ", psum_banks, " banks · HBM ", with_unit_bytes(static_cast<double>(traffic.hbm_read)),
          " read, ", with_unit_bytes(static_cast<double>(traffic.hbm_write)), " written\n");
  out += cat("  traffic   ", traffic_text(traffic), "\n");
  out += cat("  MFU ", percent(mfu), " · MBU ", percent(mbu), " · ", with_commas(instructions),
             " instructions · launch ", with_unit_ns(launch_ns), "\n");
  out += "  cost      ";
  if (!cost.rents.empty())
    out += cat(dollars(cost.rents[0].usd_per_million), " a million (", cost.rents[0].name, ") · ");
  out += cat(joules(cost.chip_joules), " and ", fixed(cost.chip_watts, 0), " W on chip, ", joules(cost.wall_joules),
             " at the wall\n\n");
  std::vector<std::vector<std::string>> rows;
  for (const auto& e : engines) {
    std::string wait;
    if (!e.waits_ns.empty() && time_ns > 0)
      wait =
          cat("waits for ", e.waits_ns[0].first, " ", fixed(100 * e.waits_ns[0].second / (time_ns * cores), 0), " %");
    rows.push_back({cat("  ", e.name), bar(e.busy_share), percent(e.busy_share), wait});
  }
  out += columns(rows, "0010");
  for (const std::string& note : notes) out += cat("  note      ", note, "\n");
  return out;
}

Json Report::json() const {
  Json j = Json::object();
  j.set("program", program).set("instance", instance).set("chip", chip).set("cores", cores);
  j.set("time_ns", time_ns);
  j.set("band_ns", Json::Array{band_low_ns, band_high_ns}).set("band_from", band_from);
  j.set("launch_ns", launch_ns);
  j.set("bound", Json::object()).set("instructions", instructions);
  Json bound_json = Json::object();
  bound_json.set("by", name(bound)).set("critical_share", bound_share);
  j.set("bound", bound_json);
  Json engine_json = Json::object();
  for (const auto& e : engines) {
    Json x = Json::object();
    x.set("busy_ns", e.busy_ns)
        .set("busy_pct", 100 * e.busy_share)
        .set("instructions", e.instructions)
        .set("waits_ns", pairs(e.waits_ns));
    engine_json.set(e.name, x);
  }
  j.set("engines", engine_json);
  j.set("critical_path_ns", pairs(critical_ns));
  j.set("flops", flops).set("mfu_pct", 100 * mfu).set("mbu_pct", 100 * mbu).set("transfers", transfers);
  j.set("hbm_read_bytes", traffic.hbm_read).set("hbm_write_bytes", traffic.hbm_write);
  j.set("sbuf_read_bytes", traffic.sbuf_read).set("sbuf_write_bytes", traffic.sbuf_write);
  j.set("psum_read_bytes", traffic.psum_read).set("psum_write_bytes", traffic.psum_write);
  j.set("spill_save_bytes", traffic.spill_save).set("spill_reload_bytes", traffic.spill_reload);
  j.set("sbuf_peak_bytes", sbuf_peak_bytes).set("sbuf_bytes", sbuf_bytes);
  j.set("psum_banks_used", psum_banks_used).set("psum_banks", psum_banks);
  j.set("hbm_used_bytes", hbm_used_bytes).set("hbm_bytes", hbm_bytes);
  j.set("table_loads", table_loads).set("throttled_ns", throttled_ns);
  j.set("notes", Json::Array(notes.begin(), notes.end()));
  j.set("energy_j", cost.chip_joules).set("watts", cost.chip_watts);
  j.set("cost", cost.json());
  j.set("cost_usd", cost.rents.empty() ? Json(nullptr) : Json(cost.rents[0].usd));
  return j;
}

}  // namespace trine::run
