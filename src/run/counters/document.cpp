// neuron-monitor's document, written as text straight from a sample: a thousand cores are a hundred thousand numbers a
// second. Its names and order are Neuron's; see monitor.h.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/format/json_text.h"
#include "run/counters/monitor.h"

namespace trine::run {

namespace {

std::string core_version(const arch::Chip& chip, int64_t lnc) { return cat("v", chip.generation, lnc > 1 ? "d" : ""); }

std::string device_type(const arch::Chip& chip) {  // "trainium", "trainium2", as the runtime writes them
  std::string out = lower(std::string_view(chip.title).substr(0, chip.title.find(' ')));
  if (out.ends_with("m1")) out.pop_back();
  return out;
}

bool has(const std::vector<std::string>& metrics, std::string_view name) {
  return std::find(metrics.begin(), metrics.end(), name) != metrics.end();
}

class Document {
 public:
  Document(JsonText& to, const Sample& sample) : to_(to), sample_(sample) {}

  void runtime(const ProcessSample& p, const std::vector<std::string>& metrics) {
    to_.object().put("pid", p.pid).put("address", "").put("neuron_runtime_tag", p.tag).put("error", "");
    to_.object("report");
    if (has(metrics, "execution_stats")) execution_stats(p);
    if (has(metrics, "memory_used")) memory_used(p);
    if (has(metrics, "neuroncore_counters")) counters(p);
    if (has(metrics, "neuron_runtime_vcpu_usage")) {
      group("neuron_runtime_vcpu_usage");
      to_.object("vcpu_usage").put("user", p.cpu_user).put("system", p.cpu_system).end().end();
    }
    if (has(metrics, "neuroncore_counters")) ours(p);
    to_.end().end();
  }

  void system(const std::vector<std::string>& metrics, const HostReading& before, const HostReading& now,
              const MonitoredMachine& machine) {
    to_.object("system_data");
    if (has(metrics, "memory_info")) {
      group("memory_info");
      to_.put("memory_total_bytes", now.memory_total).put("memory_used_bytes", now.memory_used);
      to_.put("swap_total_bytes", now.swap_total).put("swap_used_bytes", now.swap_used).end();
    }
    if (has(metrics, "neuron_hw_counters")) hardware_counters(machine);
    if (has(metrics, "vcpu_usage")) {
      group("vcpu_usage");
      cpu("average_usage", cpu_percent(before.all, now.all));
      to_.object("usage_data");
      for (size_t i = 0; i < now.each.size(); ++i)
        cpu(cat(i), cpu_percent(i < before.each.size() ? before.each[i] : CpuTimes{}, now.each[i]));
      to_.end().put("context_switch_count", now.context_switches - before.context_switches).end();
    }
    to_.end();
  }

  void instance(const MonitoredMachine& machine) {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    to_.object("instance_info").put("instance_name", is_utf8(name) ? name : "").put("instance_id", "i-virtual");
    to_.put("instance_type", machine.instance ? std::string_view(machine.instance->name) : "");
    for (const char* unknown : {"instance_availability_zone", "instance_availability_zone_id", "instance_region",
                                "ami_id", "subnet_id", "error"})
      to_.put(unknown, "");
    to_.end().object("neuron_hardware_info");
    if (const arch::Instance* const i = machine.instance) {
      to_.put("neuron_device_type", device_type(*i->chip));
      to_.put("neuron_device_version", cat("v", i->chip->generation + 1));  // Trainium2 is device v4 with core v3
      to_.put("neuroncore_version", core_version(*i->chip, machine.lnc)).put("neuron_device_count", i->chips);
      to_.put("neuron_device_memory_size", i->chip->hbm.bytes);
      to_.put("neuroncore_per_device_count", i->chip->cores / machine.lnc);
      to_.put("logical_neuroncore_config", machine.lnc);
    }
    to_.put("error", machine.instance ? "" : "no machine").end();
  }

 private:
  void group(std::string_view name) { to_.object(name).put("period", sample_.period_s).put("error", ""); }

  void counters(const ProcessSample& p) {
    group("neuroncore_counters");
    to_.object("neuroncores_in_use");
    const bool is_joined = p.lnc > 1 && p.machine;
    const std::string whole = is_joined ? core_version(*p.machine->chip, p.lnc) : "";
    for (const CoreSample& c : p.cores) {
      const double percent = 100 * c.period.utilisation();
      to_.object(cat(c.now.id)).put("neuroncore_utilization", percent);
      to_.put("flops", std::round(c.period.flops_per_s()));
      if (is_joined) {
        to_.object(whole);
        for (int64_t k = 0; k < p.lnc; ++k)
          to_.object(cat("nc_", core_version(*p.machine->chip, 1), ".", k))
              .put("neuroncore_utilization", percent)
              .end();
        to_.end();
      }
      to_.end();
    }
    to_.end().end();
  }

  void latency(std::string_view name, const Percentiles& values) {
    if (!values) {
      to_.put(name, nullptr);
      return;
    }
    to_.object(name);
    for (size_t i = 0; i < values->size(); ++i) to_.put(kPercentileNames[i], (*values)[i]);
    to_.end();
  }

  void execution_stats(const ProcessSample& p) {
    const Outcomes ended = outcomes_of(p);
    group("execution_stats");
    to_.object("error_summary");
    for (size_t i = 0; i < kErrorNames.size(); ++i) to_.put(kErrorNames[i], ended.errors[i]);
    to_.end().object("execution_summary");
    for (size_t i = 0; i < kOutcomeNames.size(); ++i) to_.put(kOutcomeNames[i], ended.outcomes[i]);
    to_.end().object("latency_stats");
    latency("total_latency", p.total_latency);
    latency("device_latency", p.device_latency);
    to_.end().end();
  }

  void memory_used(const ProcessSample& p) {
    const MemoryUse used = memory_of(p);
    group("memory_used");
    to_.object("neuron_runtime_used_bytes").put("host", used.host).put("neuron_device", used.device);
    to_.object("usage_breakdown").object("host").put("application_memory", used.host);
    to_.put("constants", 0).put("dma_buffers", 0).put("tensors", 0).end().object("neuroncore_memory_usage");
    for (const CoreSample& c : p.cores) {
      const CoreMemory held = memory_of(c);
      to_.object(cat(c.now.id));
      for (size_t i = 0; i < held.size(); ++i) to_.put(kCoreMemoryNames[i], held[i]);
      to_.end();
    }
    to_.end().end().end().array("loaded_models");
    const int64_t cores = p.machine ? std::max<int64_t>(p.machine->chip->cores / p.lnc, 1) : 1;
    int64_t number = 10000;
    for (const ProcessSample::Model& m : p.models) model(m, ++number, cores);
    to_.end().end();
  }

  void model(const ProcessSample::Model& m, int64_t number, int64_t cores) {
    to_.object().put("name", m.name).put("uuid", m.key).put("model_id", number);
    to_.put("is_running", m.period_runs > 0).object("subgraphs").object("sg_00").object("memory_used_bytes");
    to_.put("host", 0).put("neuron_device", m.constant_bytes + m.code_bytes + m.arena_bytes);
    to_.object("usage_breakdown").object("host").end().object("neuron_device");
    to_.put("constants", m.constant_bytes).put("model_code", m.code_bytes);
    to_.put("model_shared_scratchpad", m.arena_bytes).put("runtime_memory", 0).put("tensors", 0);
    to_.end().end().end();
    to_.put("neuroncore_index", m.core % cores).put("neuron_device_index", m.core / cores).end().end().end();
  }

  void ours(const ProcessSample& p) {
    to_.object("trine").put("instance", p.instance).put("libraries", p.libraries).put("command", p.command);
    to_.put("usd_total", p.usd).put("usd_per_hour", p.usd_per_hour).object("cores");
    for (const CoreSample& c : p.cores) core(c);
    to_.end().end();
  }

  void core(const CoreSample& c) {
    const CoreRates rates = rates_of(c);
    to_.object(cat(c.now.id)).put("chip", c.now.chip).object("engine_utilization");
    for (size_t u = 0; u < kUnits; ++u) to_.put(kUnitNames[u], 100 * c.period.share(u));
    to_.end().put("timed_percent", 100 * c.period.timed_share());
    to_.put("hbm_bytes_per_second", rates.hbm_bytes_per_s).put("throttled_percent", 100 * rates.throttled);
    to_.put("collective_percent", 100 * rates.collective).put("watts", c.watts).put("lost", c.now.lost);
    to_.put("executions_total", c.now.executions).put("chip_seconds_total", c.total.chip_ns * 1e-9);
    to_.put("flops_total", c.total.flops).put("joules_total", c.total.joules);
    to_.put("memory_limit_bytes", c.now.memory_limit).put("memory_peak_bytes", c.now.memory_peak);
    to_.put("host_to_device_bytes_total", c.now.host_to_device_bytes);
    to_.put("device_to_host_bytes_total", c.now.device_to_host_bytes).object("status_total");
    for (size_t s = 0; s < kStatuses; ++s)
      if (c.now.statuses[s]) to_.put(row_of(Status(s)).name, c.now.statuses[s]);
    to_.end().object("collectives_total");
    for (size_t k = 0; k < kCollectiveNames.size(); ++k)
      if (c.now.collectives[k])
        to_.object(kCollectiveNames[k])
            .put("count", c.now.collectives[k])
            .put("bytes", c.now.collective_bytes[k])
            .put("host_seconds", double(c.now.collective_ns[k]) * 1e-9)
            .end();
    to_.end().end();
  }

  void hardware_counters(const MonitoredMachine& machine) {
    group("neuron_hw_counters");
    to_.array("neuron_devices");
    auto ecc = ecc_by_chip(sample_);
    for (int64_t chip = 0; machine.instance && chip < machine.instance->chips; ++chip) {
      const auto& e = ecc[chip];
      to_.object().put("neuron_device_index", chip);
      to_.put("mem_ecc_corrected", e[size_t(PageEcc::mem_corrected)]);
      to_.put("mem_ecc_uncorrected", e[size_t(PageEcc::mem_uncorrected)]);
      to_.put("sram_ecc_uncorrected", e[size_t(PageEcc::sram_uncorrected)]);
      to_.put("sram_ecc_corrected", e[size_t(PageEcc::sram_corrected)]).end();
    }
    to_.end().end();
  }

  void cpu(std::string_view name, const std::array<double, 7>& percent) {
    to_.object(name);
    for (size_t i = 0; i < percent.size(); ++i) to_.put(kCpuParts[i], percent[i]);
    to_.end();
  }

  JsonText& to_;
  const Sample& sample_;
};

}  // namespace

std::string Monitor::text(const Sample& sample) {
  JsonText to;
  to.reserve(text_bytes_ + text_bytes_ / 8);
  Document document(to, sample);
  to.object().array("neuron_runtime_data");
  for (const ProcessSample& p : sample.processes)
    if (const MonitorConfig::Runtime* const of = runtime_of(p)) document.runtime(p, of->metrics);
  to.end();
  document.system(config_.system_metrics, host_before_, host_, machine_);
  document.instance(machine_);
  to.end();
  std::string out = to.take();
  text_bytes_ = out.size();
  return out;
}

Json Monitor::document(const Sample& sample) {
  Result<Json> out = parse_json(text(sample), "document");
  return out ? *std::move(out) : Json::object();
}

}  // namespace trine::run
