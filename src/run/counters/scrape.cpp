// A sample and a document as the same numbers; see scrape.h.
#include "run/counters/scrape.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace trine::run {

namespace {

double number(const Json* in, std::string_view key) {
  const Json* const found = in ? in->find(key) : nullptr;
  const double v = found ? found->number() : 0;
  return std::isfinite(v) ? v : 0;
}
const Json* at(const Json* in, std::string_view key) { return in ? in->find(key) : nullptr; }
int64_t whole(const Json* in, std::string_view key) {
  const Json* const found = at(in, key);
  return found ? found->integer() : 0;
}
const Json::Object& members(const Json* in) {
  static const Json kNothing;
  return (in ? *in : kNothing).members();
}
const Json::Array& items(const Json* in) {
  static const Json kNothing;
  return (in ? *in : kNothing).items();
}
Scrape::Named named(const Json* in, double scale = 1) {
  Scrape::Named out;
  for (const auto& [name, value] : members(in)) out.emplace_back(name, value.number() * scale);
  return out;
}
template <class Names, class Values>
Scrape::Named named(const Names& names, const Values& values) {
  Scrape::Named out;
  out.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) out.emplace_back(names[i], double(values[i]));
  return out;
}

std::string instance_labels(std::string_view name, std::string_view id, std::string_view type, std::string_view zone,
                            std::string_view region, std::string_view subnet) {
  return cat(prometheus_label("instance_name", name), ",", prometheus_label("instance_id", id), ",",
             prometheus_label("instance_type", type), ",", prometheus_label("availability_zone", zone), ",",
             prometheus_label("region", region), ",", prometheus_label("subnet_id", subnet));
}

void put_labels(Scrape& out) {
  for (Scrape::Runtime& r : out.runtimes) {
    r.label = prometheus_label("runtime_tag", r.tag);
    for (Scrape::Core& c : r.cores) {
      const std::string core = prometheus_label("neuroncore", c.id);
      c.labels = cat(core, ",", r.label);
      c.memory_labels = cat(core, ",memory_location=\"None\",", r.label);
    }
  }
}

Scrape::Core core_of(const CoreSample& c, bool counters, bool memory) {
  Scrape::Core out{.id = cat(c.now.id)};
  if (memory) out.memory = named(kCoreMemoryNames, memory_of(c));
  if (!counters) return out;
  const CoreRates rates = rates_of(c);
  out.utilisation = c.period.utilisation(), out.flops_per_s = std::round(c.period.flops_per_s());
  out.engines.reserve(kUnits);
  for (size_t u = 0; u < kUnits; ++u) out.engines.emplace_back(kUnitNames[u], c.period.share(u));
  out.hbm_bytes_per_s = rates.hbm_bytes_per_s, out.throttled = rates.throttled, out.collective = rates.collective;
  out.watts = c.watts, out.lost = c.now.lost ? 1 : 0, out.timed = c.period.timed_share();
  out.memory_limit = double(c.now.memory_limit), out.memory_peak = double(c.now.memory_peak);
  out.chip_seconds = c.total.chip_ns * 1e-9, out.executions = double(c.now.executions);
  out.flops = c.total.flops, out.joules = c.total.joules;
  out.to_device = double(c.now.host_to_device_bytes), out.from_device = double(c.now.device_to_host_bytes);
  for (size_t s = 0; s < kStatuses; ++s)
    if (c.now.statuses[s]) out.statuses.emplace_back(row_of(Status(s)).name, double(c.now.statuses[s]));
  for (size_t k = 0; k < kCollectiveNames.size(); ++k)
    if (c.now.collectives[k])
      out.collectives.push_back({kCollectiveNames[k], double(c.now.collectives[k]), double(c.now.collective_bytes[k])});
  return out;
}

Scrape::Runtime runtime_of(const ProcessSample& p, const std::vector<std::string>& metrics) {
  const auto has = [&](std::string_view name) {
    return std::find(metrics.begin(), metrics.end(), name) != metrics.end();
  };
  Scrape::Runtime out{.tag = p.tag};
  const bool counters = has("neuroncore_counters"), memory = has("memory_used");
  if (counters || memory)
    for (const CoreSample& c : p.cores) out.cores.push_back(core_of(c, counters, memory));
  if (memory) {
    const MemoryUse used = memory_of(p);
    out.host_bytes = double(used.host), out.device_bytes = double(used.device);
  }
  if (has("neuron_runtime_vcpu_usage")) out.cpu_user = p.cpu_user / 100, out.cpu_system = p.cpu_system / 100;
  if (has("execution_stats")) {
    const Outcomes ended = outcomes_of(p);
    out.errors = named(kErrorNames, ended.errors), out.outcomes = named(kOutcomeNames, ended.outcomes);
    if (p.total_latency) out.total_latency = named(kPercentileNames, *p.total_latency);
    if (p.device_latency) out.device_latency = named(kPercentileNames, *p.device_latency);
  }
  if (counters) out.usd = p.usd, out.usd_per_hour = p.usd_per_hour;
  return out;
}

void read_ours(Scrape::Core& out, const Json& of) {
  out.engines = named(of.find("engine_utilization"), 0.01);
  out.hbm_bytes_per_s = number(&of, "hbm_bytes_per_second"), out.throttled = number(&of, "throttled_percent") / 100;
  out.collective = number(&of, "collective_percent") / 100, out.watts = number(&of, "watts");
  out.lost = at(&of, "lost") && at(&of, "lost")->boolean() ? 1 : 0;
  out.memory_limit = number(&of, "memory_limit_bytes"), out.memory_peak = number(&of, "memory_peak_bytes");
  out.timed = number(&of, "timed_percent") / 100, out.chip_seconds = number(&of, "chip_seconds_total");
  out.executions = number(&of, "executions_total"), out.flops = number(&of, "flops_total");
  out.joules = number(&of, "joules_total"), out.statuses = named(of.find("status_total"));
  out.to_device = number(&of, "host_to_device_bytes_total");
  out.from_device = number(&of, "device_to_host_bytes_total");
  for (const auto& [kind, sums] : members(of.find("collectives_total")))
    out.collectives.push_back({kind, number(&sums, "count"), number(&sums, "bytes")});
}

// A document says what it knows of a core in three places.
class Cores {
 public:
  explicit Cores(std::vector<Scrape::Core>& cores) : cores_(cores) {}
  Scrape::Core& operator[](const std::string& id) {
    const auto [found, is_new] = index_.emplace(id, cores_.size());
    if (is_new) cores_.push_back({.id = id});
    return cores_[found->second];
  }

 private:
  std::vector<Scrape::Core>& cores_;
  std::map<std::string, size_t> index_;
};

Scrape::Runtime runtime_of(const Json& in) {
  const Json *const tag = in.find("neuron_runtime_tag"), *const report = in.find("report");
  Scrape::Runtime out{.tag = tag ? tag->string() : ""};
  Cores cores(out.cores);
  for (const auto& [id, of] : members(at(at(report, "neuroncore_counters"), "neuroncores_in_use"))) {
    Scrape::Core& core = cores[id];
    core.utilisation = number(&of, "neuroncore_utilization") / 100, core.flops_per_s = number(&of, "flops");
  }
  const Json* const used = at(at(report, "memory_used"), "neuron_runtime_used_bytes");
  if (used) out.host_bytes = number(used, "host"), out.device_bytes = number(used, "neuron_device");
  for (const auto& [id, classes] : members(at(at(used, "usage_breakdown"), "neuroncore_memory_usage")))
    cores[id].memory = named(&classes);
  const Json* const cpu = at(at(report, "neuron_runtime_vcpu_usage"), "vcpu_usage");
  if (cpu) out.cpu_user = number(cpu, "user") / 100, out.cpu_system = number(cpu, "system") / 100;
  const Json* const stats = at(report, "execution_stats");
  out.errors = named(at(stats, "error_summary")), out.outcomes = named(at(stats, "execution_summary"));
  out.total_latency = named(at(at(stats, "latency_stats"), "total_latency"));
  out.device_latency = named(at(at(stats, "latency_stats"), "device_latency"));
  if (const Json* const ours = at(report, "trine")) {
    for (const auto& [id, of] : members(ours->find("cores"))) read_ours(cores[id], of);
    out.usd = number(ours, "usd_total"), out.usd_per_hour = number(ours, "usd_per_hour");
  }
  return out;
}

constexpr const char* kEccNames[] = {"mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected",
                                     "sram_ecc_uncorrected"};
static_assert(std::size(kEccNames) == size_t(PageEcc::count));  // in the order of PageEcc

}  // namespace

std::string prometheus_label(std::string_view name, std::string_view value) {
  std::string out = cat(name, "=\"");
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out += '"';
}

Scrape Scrape::of(const Sample& sample, const Monitor& monitor) {
  Scrape out;
  for (const ProcessSample& p : sample.processes)
    if (const MonitorConfig::Runtime* const of = monitor.runtime_of(p))
      out.runtimes.push_back(run::runtime_of(p, of->metrics));
  const auto& asked = monitor.config().system_metrics;
  const auto has = [&](std::string_view name) { return std::find(asked.begin(), asked.end(), name) != asked.end(); };
  const HostReading &before = monitor.host_before(), &now = monitor.host();
  const MonitoredMachine& machine = monitor.machine();
  if (has("vcpu_usage")) {
    const auto share = cpu_percent(before.all, now.all);  // user, nice, system, idle, io_wait, irq, soft_irq
    out.vcpus = double(now.each.size());
    out.vcpu_user = (share[0] + share[1]) / 100, out.vcpu_system = (share[2] + share[4] + share[5] + share[6]) / 100;
  }
  if (has("memory_info")) {
    out.memory_total = double(now.memory_total), out.memory_used = double(now.memory_used);
    out.swap_total = double(now.swap_total), out.swap_used = double(now.swap_used);
  }
  if (has("neuron_hw_counters")) {
    auto events = ecc_by_chip(sample);
    for (int64_t chip = 0; machine.instance && chip < machine.instance->chips; ++chip)
      out.ecc.push_back({chip, named(std::span(kEccNames), events[chip])});
  }
  if (machine.instance) {
    out.devices = machine.instance->chips;
    out.cores_per_device = machine.instance->chip->cores / std::max<int64_t>(machine.lnc, 1);
  }
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  out.instance = instance_labels(is_utf8(name) ? name : "", "i-virtual",
                                 machine.instance ? std::string_view(machine.instance->name) : "", "", "", "");
  put_labels(out);
  return out;
}

Scrape Scrape::of(const Json& document) {
  Scrape out;
  for (const Json& runtime : items(document.find("neuron_runtime_data")))
    out.runtimes.push_back(run::runtime_of(runtime));
  const Json *const system = document.find("system_data"), *const vcpu = at(system, "vcpu_usage"),
                    *const memory = at(system, "memory_info");
  if (vcpu) {
    const Json* const usage = vcpu->find("average_usage");
    out.vcpus = double(members(vcpu->find("usage_data")).size());
    out.vcpu_user = (number(usage, "user") + number(usage, "nice")) / 100;
    out.vcpu_system =
        (number(usage, "system") + number(usage, "io_wait") + number(usage, "irq") + number(usage, "soft_irq")) / 100;
  }
  if (memory) {
    out.memory_total = number(memory, "memory_total_bytes"), out.memory_used = number(memory, "memory_used_bytes");
    out.swap_total = number(memory, "swap_total_bytes"), out.swap_used = number(memory, "swap_used_bytes");
  }
  for (const Json& device : items(at(at(system, "neuron_hw_counters"), "neuron_devices"))) {
    Ecc row{whole(&device, "neuron_device_index"), {}};
    for (const char* event : kEccNames) row.events.emplace_back(event, number(&device, event));
    out.ecc.push_back(std::move(row));
  }
  const Json *const hardware = document.find("neuron_hardware_info"), *const info = document.find("instance_info");
  out.devices = whole(hardware, "neuron_device_count");
  out.cores_per_device = whole(hardware, "neuroncore_per_device_count");
  const auto text = [&](std::string_view key) {
    const Json* const found = at(info, key);
    return found ? found->string() : std::string();
  };
  out.instance = instance_labels(text("instance_name"), text("instance_id"), text("instance_type"),
                                 text("instance_availability_zone"), text("instance_region"), text("subnet_id"));
  put_labels(out);
  return out;
}

}  // namespace trine::run
