// Instance: a machine one can rent (or an UltraServer of several), read from arch/instances/*.json: chips, host, wires,
// prices and power, every number with a source. How messages travel over the wires is comm/topology.h.
// Invariant: the product of all sides of the topology is the number of chips.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/chips/facts.h"
#include "arch/prices/price.h"
#include "base/result.h"

namespace trine::arch {

enum class Wiring : uint8_t {
  line,        // each chip to the next
  ring,        // and the last to the first
  torus,       // rows and columns are rings
  all_to_all,  // through a switch
};
std::string_view wiring_name(Wiring wiring);

// One level of the machine, innermost first: 16 chips in a torus, then 4 such hosts in a ring.
struct Level {
  Wiring wiring = Wiring::line;
  std::vector<int64_t> sides;    // one number; two (rows, columns) for a torus
  double link_bytes_per_ns = 0;  // one link (all_to_all: one chip's port), one direction
  double hop_ns = 0;
  std::string from = {}, link_from = {}, hop_from = {};

  int64_t size() const;
};

struct Instance {
  std::string name, title, note;
  std::vector<std::string> aliases;
  const Chip* chip = nullptr;  // of all_chips(), lives as long as the program
  std::vector<Level> levels;   // empty for one chip

  int64_t chips = 0, hosts = 0;
  struct {
    int64_t vcpus = 0, memory_bytes = 0, numa_nodes = 0;  // all hosts together; numa_nodes of one host
  } host;
  struct {
    double efa_gbps = 0, hop_ns = 0;
  } network;
  struct {
    double on_demand_usd_per_hour = 0, reserved_usd_per_hour = 0, reserved_3y_usd_per_hour = 0,
           capacity_block_usd_per_hour = 0;
  } price;
  struct {
    double host_watts = 0, pue_factor = 0;  // host_watts: everything that is not a chip, all hosts
  } power;
  std::vector<Price> prices;       // the known ones again, with region and date; the usual way to rent first
  std::vector<std::string> bdf;    // PCI address of each chip of a host; empty: not known
  std::vector<int64_t> numa_node;  // of each chip of a host; empty: in order
  Sources sources;

  bool knows(std::string_view path) const { return sources.contains(path); }  // for optional numbers
  int64_t cores() const { return chips * chip->cores; }
  int64_t chips_per_host() const { return chips / hosts; }
  double watts() const { return power.host_watts + static_cast<double>(chips) * chip->power.chip_watts; }
};

using InstanceRow = Fact<Instance>;
std::span<const InstanceRow> instance_rows();

// A price by its row's path, when it is known; the cheapest way to rent is not always the published one.
std::optional<double> known_number(const Instance& instance, std::string_view path);

std::span<const Instance> all_instances();  // built in, by chip generation, then size
Result<const Instance*> find_instance(
    std::string_view name);  // by name or alias, any case; the error names the nearest
Result<Instance> parse_instance(std::string_view json, std::string_view file_name);
Result<Instance> load_instance_file(const std::string& path);

}  // namespace trine::arch
