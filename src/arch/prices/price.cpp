// Reads prices and the machines of other makers; see price.h.
#include "arch/prices/price.h"

#include <algorithm>

#include "arch/chips/facts.h"
#include "base/embedded.h"

namespace trine::arch {

std::span<const EmbeddedFile> embedded_prices();  // written by the build

namespace {

struct RentRow {
  std::string_view text, path;
};
constexpr RentRow kRentRows[] = {
    {"on-demand", "price.on_demand_usd_per_hour"},
    {"reserved", "price.reserved_usd_per_hour"},
    {"reserved, 3 years", "price.reserved_3y_usd_per_hour"},
    {"capacity block", "price.capacity_block_usd_per_hour"},
};

bool is_date(std::string_view s) {
  if (s.size() != 10 || s[4] != '-' || s[7] != '-') return false;
  for (const size_t i : {0, 1, 2, 3, 5, 6, 8, 9})
    if (s[i] < '0' || s[i] > '9') return false;
  return true;
}

Result<Price> read_price(Rent rent, const Json& entry, std::string_view file) {
  const std::string_view path = rent_path(rent);
  Price out{.rent = rent};
  out.usd_per_hour = TRY(read_entry(entry, file, path, out.from));
  const FactUnit unit = find_fact_unit("usd_per_hour");
  TRY(check_limits(out.usd_per_hour, unit.min, unit.max, false, unit.name, file, path));
  const Json *region = entry.find("region"), *date = entry.find("date");
  out.region = region ? region->string() : "";
  out.date = date ? date->string() : "";
  if (out.region.empty()) return fact_error(file, path, "no region; write the place, or \"not stated\"");
  if (!is_date(out.date) && out.date != "not stated")
    return fact_error(file, path, cat("date \"", out.date, "\"; write a day as 2026-01-21, or \"not stated\""));
  return out;
}

Result<OtherMachine> read_machine(const Json& v, const std::string& path, std::string_view file) {
  const Json *name = v.find("name"), *chip = v.find("chip"), *chips = v.find("chips"), *watts = v.find("chip_watts");
  if (!name || name->string().empty() || !chip || chip->string().empty() || !chips || !chips->is_integer() ||
      chips->integer() < 1 || chips->integer() > 65536)
    return fact_error(file, path, "expected name, chip and chips, a count");
  OtherMachine out{name->string(), chip->string(), chips->integer()};
  if (watts) {
    out.chip_watts = TRY(read_entry(*watts, file, path + ".chip_watts", out.watts_from));
    TRY(check_limits(out.chip_watts, 0, 1e7, false, "watts", file, path + ".chip_watts"));
  }
  out.prices = TRY(read_prices(v, file));
  for (const auto& [key, child] : v.members())
    if (key != "name" && key != "chip" && key != "chips" && key != "chip_watts" && key != "price")
      return fact_error(file, cat(path, ".", key), "no such key; expected name, chip, chips, chip_watts and price");
  return out;
}

}  // namespace

std::string_view rent_text(Rent rent) { return kRentRows[static_cast<size_t>(rent)].text; }
std::string_view rent_path(Rent rent) { return kRentRows[static_cast<size_t>(rent)].path; }

Result<std::vector<Price>> read_prices(const Json& root, std::string_view file) {
  std::vector<Price> out;
  const Json* group = root.find("price");
  if (!group) return out;
  const std::string_view lead = "price.";
  for (const Rent rent : kRents)
    if (const Json* entry = group->find(rent_path(rent).substr(lead.size())))
      out.push_back(TRY(read_price(rent, *entry, file)));
  return out;
}

Result<std::vector<OtherMachine>> parse_machines(std::string_view json, std::string_view file) {
  const Json root = TRY(parse_json(json, file));
  const Json* list = root.find("machines");
  if (!list || !list->is_array()) return fact_error(file, "machines", "missing; expected an array");
  std::vector<OtherMachine> out;
  for (const Json& v : list->items()) out.push_back(TRY(read_machine(v, cat("machines[", out.size(), "]"), file)));
  return out;
}

std::span<const OtherMachine> other_machines() {
  static const std::vector<OtherMachine> machines = [] {
    std::vector<OtherMachine> all;
    for (const EmbeddedFile& f : embedded_prices()) {
      auto some = parse_machines(f.text, f.name);
      CHECK(some, some.error().text().c_str());
      all.insert(all.end(), some->begin(), some->end());
    }
    std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.name < b.name; });
    return all;
  }();
  return machines;
}

}  // namespace trine::arch
