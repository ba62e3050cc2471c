// trine use: choose the virtual machine that other commands work on, or list the machines there are.
#include "arch/instances/instance.h"
#include "base/text.h"
#include "tools/choose.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using arch::Instance;

constexpr std::pair<std::string_view, std::string_view> kPrices[] = {
    {"on demand", "price.on_demand_usd_per_hour"},
    {"reserved", "price.reserved_usd_per_hour"},
    {"3 years", "price.reserved_3y_usd_per_hour"},
    {"block", "price.capacity_block_usd_per_hour"},
};

std::string memory(int64_t bytes) { return cat(bytes >> 30, " GiB"); }

std::vector<std::vector<std::string>> machines_table(const std::string& current) {
  std::vector<std::vector<std::string>> rows(1, {"", "instance", "chip", "chips", "cores", "device", "host"});
  for (const auto& [title, path] : kPrices) rows[0].emplace_back(title);
  rows[0].emplace_back("kW");
  for (const Instance& i : arch::all_instances()) {
    rows.push_back({i.name == current ? "*" : "", i.name, i.chip->name, cat(i.chips), cat(i.cores()),
                    memory(i.chips * i.chip->hbm.bytes), memory(i.host.memory_bytes)});
    for (const auto& [title, path] : kPrices) {
      const auto price = arch::known_number(i, path);
      rows.back().push_back(price ? fixed(*price, 3) : "");
    }
    rows.back().push_back(fixed(i.watts() / 1e3, 1));
  }
  return rows;
}

Json machine_json(const Instance& i) {
  Json numbers = Json::object(), levels = Json::array(), prices = Json::array();
  for (const arch::InstanceRow& row : arch::instance_rows())
    if (i.knows(row.path)) {
      const double v = arch::read_fact(i, row);
      numbers.set(row.path, Json::object()
                                .set("is", row.whole ? Json(static_cast<int64_t>(v)) : Json(v))
                                .set("unit", row.unit)
                                .set("from", i.sources.find(row.path)->second));
    }
  for (const arch::Price& p : i.prices)
    prices.push(Json::object()
                    .set("way", arch::rent_text(p.rent))
                    .set("usd_per_hour", p.usd_per_hour)
                    .set("region", p.region)
                    .set("date", p.date)
                    .set("from", p.from));
  for (const arch::Level& level : i.levels) {
    Json sides = Json::array();
    for (const int64_t side : level.sides) sides.push(side);
    levels.push(Json::object()
                    .set("wiring", arch::wiring_name(level.wiring))
                    .set("sides", std::move(sides))
                    .set("link_bytes_per_ns", level.link_bytes_per_ns)
                    .set("hop_ns", level.hop_ns)
                    .set("from", level.from)
                    .set("link_from", level.link_from));
  }
  return Json::object()
      .set("name", i.name)
      .set("title", i.title)
      .set("chip", i.chip->name)
      .set("cores", i.cores())
      .set("numbers", std::move(numbers))
      .set("prices", std::move(prices))
      .set("topology", std::move(levels));
}

Result<Exit> run(const Args& args) {
  if (args.has("--clear")) {
    TRY(save_instance(""));
    note("no machine chosen; commands use TRINE_INSTANCE or trn1.2xlarge");
    return Exit::ok;
  }
  if (!args.words.empty()) {
    const Instance* instance = TRY(arch::find_instance(args.words[0]));
    TRY(save_instance(instance->name));
    note(cat("using ", instance->name, ": ", instance->title));
    return Exit::ok;
  }
  const auto machine = choose_machine(args);
  const std::string current = machine ? machine->instance.name : "";
  if (args.has("--json")) {
    Json list = Json::array();
    for (const Instance& i : arch::all_instances()) list.push(machine_json(i));
    print(report("instances").set("current", current).set("instances", std::move(list)).text(2) + "\n");
    return Exit::ok;
  }
  if (args.has("--markdown")) {
    print(
        "# Instances\n\nWritten by `trine use --markdown`; the numbers are in `src/arch/instances/`, each with its "
        "source. Prices "
        "are USD an hour,\nas of January 2026; empty: not published. kW: chips and host at full load, without PUE. "
        "UltraServers "
        "and Trn3 have no\nEC2 size name; theirs are Trine's. Trn4 is projected.\n\n" +
        markdown(machines_table("")));
    return Exit::ok;
  }
  print(columns(machines_table(current), "000111111111"));
  print("\n* in use   prices in USD an hour, as of January 2026 (trine use --json has each number's source)\n");
  return Exit::ok;
}

constexpr Option kOptions[] = {
    kJson,
    {"--clear", "", "", "forget the choice"},
    {"--markdown", "", "", "the machines as a page"},
};

}  // namespace

extern const Command command_use{
    .name = "use",
    .summary = "choose the virtual machine, or list the machines there are",
    .words = "[INSTANCE]",
    .words_max = 1,
    .word = text_like(instance_names),
    .details = "The choice is kept in your configuration folder; --instance and TRINE_INSTANCE go before it.",
    .examples = "trine use trn2.48xlarge",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
