// `trine prices`: what machines cost an hour and draw at the wall, each price with its region, day and source.
#include "arch/instances/instance.h"
#include "base/text.h"
#include "run/report/cost.h"
#include "tools/choose.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using arch::Instance;
using Table = std::vector<std::vector<std::string>>;

constexpr double kHourNs = 3.6e12;

std::string short_text(std::string_view not_stated) {
  return not_stated == "not stated" ? "–" : std::string(not_stated);
}

void add_prices(Table& out, const std::string& name, std::string_view chip, int64_t chips,
                const std::vector<arch::Price>& prices, double pflops) {
  for (const arch::Price& p : prices)
    out.push_back({name, cat(chips, " ", chip), std::string(arch::rent_text(p.rent)), fixed(p.usd_per_hour, 3),
                   fixed(p.usd_per_hour / static_cast<double>(chips), 3),
                   pflops > 0 ? fixed(p.usd_per_hour / pflops, 2) : "", short_text(p.region), short_text(p.date),
                   p.from});
}

// Published dense bf16 of all chips, PFLOP/s; 0 where the maker gives none.
double pflops_of(const Instance& i) {
  const auto found = i.chip->published.find("bf16_tflops");
  return found == i.chip->published.end() ? 0 : found->second.is * static_cast<double>(i.chips) / 1e3;
}

Table price_table() {
  Table out = {{"machine", "chips", "way", "USD/h", "per chip", "per PFLOP/s", "region", "date", "source"}};
  for (const Instance& i : arch::all_instances())
    add_prices(out, i.name, i.chip->name, i.chips, i.prices, pflops_of(i));
  for (const arch::OtherMachine& m : arch::other_machines()) add_prices(out, m.name, m.chip, m.chips, m.prices, 0);
  return out;
}

std::string marked(double watts, const arch::Sources& sources, std::string_view path) {
  const auto found = sources.find(path);
  return cat(fixed(watts, 0), found != sources.end() && found->second.starts_with("doc") ? "" : "?");
}

Table power_table() {
  Table out = {{"machine", "chips", "chip W", "idle W", "host W", "PUE", "wall kW, full", "wall kW, idle"}};
  for (const Instance& i : arch::all_instances()) {
    const run::Cost full = run::cost_of(i, {.ns = kHourNs}), idle = run::cost_of(i, {.ns = kHourNs, .utilisation = 0});
    const auto& chip = i.chip->power;
    out.push_back({i.name, cat(i.chips, " ", i.chip->name),
                   marked(chip.chip_watts, i.chip->sources, "power.chip_watts"),
                   marked(chip.idle_watts, i.chip->sources, "power.idle_watts"),
                   marked(i.power.host_watts, i.sources, "power.host_watts"), fixed(i.power.pue_factor, 2),
                   fixed(full.wall_watts / 1e3, 2), fixed(idle.wall_watts / 1e3, 2)});
  }
  for (const arch::OtherMachine& m : arch::other_machines())
    if (m.chip_watts > 0)
      out.push_back({m.name, cat(m.chips, " ", m.chip), fixed(m.chip_watts, 0), "", "", "", "", ""});
  return out;
}

Json price_json(const std::vector<arch::Price>& prices) {
  Json out = Json::array();
  for (const arch::Price& p : prices)
    out.push(Json::object()
                 .set("way", arch::rent_text(p.rent))
                 .set("usd_per_hour", p.usd_per_hour)
                 .set("region", p.region)
                 .set("date", p.date)
                 .set("from", p.from));
  return out;
}

Json machines_json() {
  Json list = Json::array();
  for (const Instance& i : arch::all_instances()) {
    Json m = Json::object();
    m.set("name", i.name).set("chip", i.chip->name).set("chips", i.chips).set("prices", price_json(i.prices));
    m.set("full", run::cost_of(i, {.ns = kHourNs}).json());
    list.push(std::move(m));
  }
  for (const arch::OtherMachine& o : arch::other_machines()) {
    Json m = Json::object();
    m.set("name", o.name).set("chip", o.chip).set("chips", o.chips).set("prices", price_json(o.prices));
    if (o.chip_watts > 0) m.set("chip_watts", o.chip_watts);
    list.push(std::move(m));
  }
  return list;
}

constexpr std::string_view kAbout =
    "Written by `trine prices --markdown`. Prices are USD an hour of the whole machine, without tax; the last columns "
    "say\nwhere and when they held (–: the source does not say). `per PFLOP/s`: over the published dense bf16 rate. "
    "Machines with\nGPUs are there to compare prices with; nothing of them is simulated.\n\n";
constexpr std::string_view kAboutPower =
    "\n## Power\n\nA number with `?` is an estimate: Neuron publishes no watts. Host: everything in the machine that "
    "is "
    "not a chip. The wall\nis chips and host times PUE, the building's share. A run's own watts lie between idle and "
    "full: by the instructions and\nbytes that the timer counts (`power.*_pj` of the [chips](chips.md), estimates), or "
    "by utilisation where it counts none.\n\n";

Result<Exit> run_prices(const Args& args) {
  if (args.has("--json"))
    print(report("prices").set("machines", machines_json()).text(2) + "\n");
  else if (args.has("--markdown"))
    print(cat("# Prices and power\n\n", kAbout, markdown(price_table()), kAboutPower, markdown(power_table())));
  else
    print(columns(price_table(), "000111000") + "\n" + columns(power_table(), "00111111") +
          "\n?: an estimate (trine prices --json has each number's source)\n");
  return Exit::ok;
}

constexpr Option kOptions[] = {kJson, {"--markdown", "", "", "print docs/prices.md"}};

}  // namespace

extern const Command command_prices{
    .name = "prices",
    .summary = "what machines cost an hour, and draw",
    .details =
        "On demand, reserved and in capacity blocks, each with region and day; watts of chips, host and building.",
    .examples = "trine prices",
    .options = kOptions,
    .run = run_prices,
};

}  // namespace trine::tools
