// Writes the tree, only what changed; see sysfs.h.
#include "run/counters/sysfs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/text.h"

namespace trine::run {

namespace fs = std::filesystem;

void SysfsTree::put(const std::string& path, std::string text) {
  Seen& seen = seen_[path];
  if (seen.text == text) return;
  const std::string file = cat(root_, "/", path);
  std::error_code none;
  if (seen.text.empty()) fs::create_directories(fs::path(file).parent_path(), none);
  if (const auto written = write_file(file, text); !written) trouble_ = written.error().text();
  seen.text = std::move(text);
}

// total: since it was cleared; present: what came with the last update. Of memory: now, the last change, the most.
void SysfsTree::counter(const std::string& path, int64_t total, bool has_peak) {
  Seen& c = seen_[path];
  const auto was_written = [&](const char* which) {
    const std::string name = cat(path, "/", which);
    const auto found = seen_.find(name);
    if (found == seen_.end()) return false;
    const auto text = read_file(cat(root_, "/", name));
    if (!text || *text == found->second.text) return false;
    found->second.text.clear();
    return true;
  };
  const bool clears_total = was_written("total"), clears_present = was_written("present");
  const bool clears_peak = has_peak && was_written("peak");
  if (clears_total || clears_present) c.base = c.last;
  c.peak = clears_peak ? total : std::max(c.peak, total);
  const int64_t present = total - c.last;
  c.last = total;
  put(cat(path, "/total"), cat(has_peak ? total : total - c.base, "\n"));
  put(cat(path, "/present"), cat(present, "\n"));
  if (has_peak) put(cat(path, "/peak"), cat(c.peak, "\n"));
}

Result<void> SysfsTree::update(const Sample& sample, const MonitoredMachine& machine) {
  if (!machine.instance) return fail(Code::not_found, "no machine whose devices could be listed");
  const arch::Instance& instance = *machine.instance;
  const int64_t per_chip = instance.chip->cores / machine.lnc;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  trouble_.clear();
  auto ecc = ecc_by_chip(sample);
  std::map<int64_t, std::vector<const CoreSample*>> cores;  // by id, of all processes
  for (const ProcessSample& p : sample.processes)
    for (const CoreSample& c : p.cores) cores[c.now.id].push_back(&c);
  for (int64_t chip = 0; chip < instance.chips; ++chip) {
    const std::string device = cat("neuron_device/neuron", chip);
    put(cat(device, "/core_count"), cat(per_chip, "\n"));
    put(cat(device, "/info/architecture/arch_type"), cat("NCv", instance.chip->generation, "\n"));
    put(cat(device, "/info/architecture/device_name"), cat(instance.chip->title, "\n"));
    put(cat(device, "/info/architecture/instance_type"), cat(instance.name, "\n"));
    put(cat(device, "/info/notify_delay"), "0\n");
    put(cat(device, "/info/serial_number"), cat("virtual-", chip, "\n"));
    put(cat(device, "/reset"), "0\n");
    counter(cat(device, "/stats/hardware/mem_ecc_uncorrected"), ecc[chip][size_t(PageEcc::mem_uncorrected)]);
    counter(cat(device, "/stats/hardware/mem_ecc_repairable_uncorrected"), 0);
    counter(cat(device, "/stats/hardware/sram_ecc_uncorrected"), ecc[chip][size_t(PageEcc::sram_uncorrected)]);
    double watts = 0, low = 0, high = 0;
    for (int64_t k = 0; k < per_chip; ++k) {
      const std::string core = cat(device, "/neuron_core", k);
      std::map<std::string_view, int64_t> status;
      for (const StatusRow& row : status_rows()) status[row.sysfs] += 0;
      int64_t tensors = 0, constants = 0, code = 0, scratch = 0, runs = 0, models = 0;
      double flops = 0, in_use_ns = 0;
      double core_watts = instance.chip->power.idle_watts / double(instance.chip->cores) * double(machine.lnc);
      for (const CoreSample* c : cores[chip * per_chip + k]) {
        for (size_t s = 0; s < kStatuses; ++s) status[row_of(Status(s)).sysfs] += c->now.statuses[s];
        const auto& m = c->now.memory;
        tensors += m[size_t(PageMemory::input)] + m[size_t(PageMemory::output)];
        constants += m[size_t(PageMemory::constants)], scratch += m[size_t(PageMemory::temporary)];
        code += c->code_bytes, runs += c->now.executions, models += c->total.runs > 0;
        flops += c->total.flops, in_use_ns += c->total.chip_ns;
        core_watts = std::max(core_watts, c->watts);
      }
      watts += core_watts;
      for (const auto& [name, count] : status) counter(cat(core, "/stats/status/", name), count);
      const std::string memory = cat(core, "/stats/memory_usage/device_mem/");
      counter(memory + "tensors", tensors, true), counter(memory + "constants", constants, true);
      counter(memory + "model_code", code, true), counter(memory + "model_shared_scratchpad", scratch, true);
      for (const char* other : {"collectives", "dma_rings", "driver_memory", "nonshared_scratchpad", "notifications",
                                "runtime_memory", "uncategorized"})
        counter(memory + other, 0, true);
      counter(cat(core, "/stats/other_info/flop_count"), int64_t(std::min(flops, 9e18)));
      counter(cat(core, "/stats/other_info/inference_count"), runs);
      counter(cat(core, "/stats/other_info/model_load_count"), models);
      counter(cat(core, "/stats/other_info/nc_time_in_use"), int64_t(in_use_ns / 1e3));  // microseconds
      counter(cat(core, "/stats/other_info/reset_req_count"), 0),
          counter(cat(core, "/stats/other_info/reset_fail_count"), 0);
    }
    low = high = 100 * watts / std::max(instance.chip->power.chip_watts, 1e-9);
    put(cat(device, "/stats/power/utilization"), cat("POWER_STATUS_VALID,", seconds / 60 * 60, ",", fixed(low, 2), ",",
                                                     fixed(high, 2), ",", fixed(low, 2), "\n"));
    counter(cat(device, "/stats/memory_usage/host_mem/application_memory"), 0, true);
  }
  if (!trouble_.empty()) return fail(Code::io, trouble_);
  return {};
}

}  // namespace trine::run
