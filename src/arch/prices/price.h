// What renting a machine costs: a price is USD an hour in one region on one day. Neuron's instances carry theirs in
// their own files; machines of other makers, to compare with, are in arch/prices/*.json: price, chips and watts, no
// more.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/format/json.h"
#include "base/result.h"

namespace trine::arch {

enum class Rent : uint8_t { on_demand, reserved, reserved_3y, capacity_block };
inline constexpr Rent kRents[] = {Rent::on_demand, Rent::reserved, Rent::reserved_3y, Rent::capacity_block};
std::string_view rent_text(Rent rent);  // "on-demand", "reserved", "reserved, 3 years", "capacity block"
std::string_view rent_path(Rent rent);  // "price.on_demand_usd_per_hour"

struct Price {
  Rent rent = Rent::on_demand;
  double usd_per_hour = 0;                        // of the whole machine
  std::string region = {}, date = {}, from = {};  // "not stated" where the source does not say
};

// The prices under "price" of a file's root, the usual way to rent first.
Result<std::vector<Price>> read_prices(const Json& root, std::string_view file);

struct OtherMachine {
  std::string name = {}, chip = {};
  int64_t chips = 0;
  double chip_watts = 0;  // 0: not known
  std::string watts_from = {};
  std::vector<Price> prices = {};
};
std::span<const OtherMachine> other_machines();  // by name
Result<std::vector<OtherMachine>> parse_machines(std::string_view json, std::string_view file);

}  // namespace trine::arch
