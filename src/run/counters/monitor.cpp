// neuron-monitor's document from a sample; see monitor.h.
#include "run/counters/monitor.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace trine::run {

namespace {

constexpr std::string_view kRuntimeMetrics[] = {"neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage",
                                                "execution_stats"};
constexpr std::string_view kSystemMetrics[] = {"vcpu_usage", "memory_info", "neuron_hw_counters"};
constexpr std::string_view kPercentileNames[] = {"p0", "p1", "p25", "p50", "p75", "p99", "p100"};
constexpr std::string_view kErrors[] = {"generic", "numerical", "transient", "model", "runtime", "hardware"};
constexpr std::string_view kOutcomes[] = {"completed", "completed_with_err", "completed_with_num_err",
                                          "timed_out", "incorrect_input",    "failed_to_queue"};

Result<std::vector<std::string>> metric_types(const Json& list, std::span<const std::string_view> known,
                                              std::string_view file) {
  std::vector<std::string> out;
  for (const Json& metric : list.items()) {
    const Json* const type = metric.find("type");
    const std::string name = type ? type->string() : "";
    if (std::find(known.begin(), known.end(), name) == known.end())
      return fail(Code::invalid,
                  cat("found the metric \"", name, "\", expected one of ",
                      join(std::vector<std::string>(known.begin(), known.end()), ", ")),
                  std::string(file));
    out.push_back(name);
  }
  return out;
}

// An object's members as they come, moved into the document: a thousand cores are a hundred thousand of them.
class Fields {
 public:
  Fields& set(std::string_view key, Json value) {
    members_.emplace_back(std::string(key), std::move(value));
    return *this;
  }
  operator Json() { return Json(std::move(members_)); }

 private:
  Json::Object members_;
};

Fields group(double period) { return Fields().set("period", period).set("error", ""); }

std::string core_version(const arch::Chip& chip, int64_t lnc) { return cat("v", chip.generation, lnc > 1 ? "d" : ""); }

std::string device_type(const arch::Chip& chip) {  // "trainium", "trainium2", as the runtime writes them
  std::string out = lower(std::string_view(chip.title).substr(0, chip.title.find(' ')));
  if (out.ends_with("m1")) out.pop_back();
  return out;
}

Json counters(const ProcessSample& p, double period, const MonitoredMachine& machine) {
  Json cores = Fields();
  for (const CoreSample& c : p.cores) {
    Json one = Fields();
    one.set("neuroncore_utilization", 100 * c.period.utilisation()).set("flops", std::round(c.period.flops_per_s()));
    if (p.lnc > 1 && machine.instance) {
      Json each = Fields();
      for (int64_t k = 0; k < p.lnc; ++k)
        each.set(cat("nc_", core_version(*machine.instance->chip, 1), ".", k),
                 Fields().set("neuroncore_utilization", 100 * c.period.utilisation()));
      one.set(core_version(*machine.instance->chip, p.lnc), std::move(each));
    }
    cores.set(cat(c.now.id), std::move(one));
  }
  return group(period).set("neuroncores_in_use", std::move(cores));
}

Json latency(const Percentiles& values) {
  if (!values) return nullptr;
  Json out = Fields();
  for (size_t i = 0; i < values->size(); ++i) out.set(kPercentileNames[i], (*values)[i]);
  return out;
}

Json execution_stats(const ProcessSample& p, double period) {
  std::map<std::string_view, int64_t> errors, outcomes;
  const auto rows = status_rows();
  for (const CoreSample& c : p.cores)
    for (size_t s = 0; s < kStatuses; ++s) {
      const int64_t n = std::max<int64_t>(c.now.statuses[s] - c.before.statuses[s], 0);
      outcomes[rows[s].summary] += n;
      if (!rows[s].error.empty()) errors[rows[s].error] += n;
    }
  Json error_json = Fields(), outcome_json = Fields();
  for (const auto name : kErrors) error_json.set(name, errors[name]);
  for (const auto name : kOutcomes) outcome_json.set(name, outcomes[name]);
  return group(period)
      .set("error_summary", std::move(error_json))
      .set("execution_summary", std::move(outcome_json))
      .set("latency_stats",
           Fields().set("total_latency", latency(p.total_latency)).set("device_latency", latency(p.device_latency)));
}

Json core_memory(const CoreSample& c) {
  const auto& m = c.now.memory;
  return Fields()
      .set("constants", m[size_t(PageMemory::constants)])
      .set("model_code", c.code_bytes)
      .set("model_shared_scratchpad", m[size_t(PageMemory::temporary)])
      .set("runtime_memory", 0)
      .set("tensors", m[size_t(PageMemory::input)] + m[size_t(PageMemory::output)]);
}

int64_t device_bytes(const ProcessSample& p) {
  int64_t sum = 0;
  for (const CoreSample& c : p.cores) {
    sum += c.code_bytes;
    for (const int64_t b : c.now.memory) sum += b;
  }
  return sum;
}

Json memory_used(const ProcessSample& p, double period) {
  Json by_core = Fields(), models = Json::array();
  for (const CoreSample& c : p.cores) by_core.set(cat(c.now.id), core_memory(c));
  int64_t number = 10000;
  for (const ProcessSample::Model& m : p.models) {
    const int64_t cores = p.machine ? std::max<int64_t>(p.machine->chip->cores / p.lnc, 1) : 1;
    Json device = Fields()
                      .set("constants", m.constant_bytes)
                      .set("model_code", m.code_bytes)
                      .set("model_shared_scratchpad", m.arena_bytes)
                      .set("runtime_memory", 0)
                      .set("tensors", 0);
    Json graph =
        Fields()
            .set("memory_used_bytes",
                 Fields()
                     .set("host", 0)
                     .set("neuron_device", m.constant_bytes + m.code_bytes + m.arena_bytes)
                     .set("usage_breakdown", Fields().set("host", Fields()).set("neuron_device", std::move(device))))
            .set("neuroncore_index", m.core % cores)
            .set("neuron_device_index", m.core / cores);
    models.push(Fields()
                    .set("name", m.name)
                    .set("uuid", m.key)
                    .set("model_id", ++number)
                    .set("is_running", m.period_runs > 0)
                    .set("subgraphs", Fields().set("sg_00", std::move(graph))));
  }
  // What devices hold lies in this process's memory, and is the device's here.
  const int64_t device = device_bytes(p), application = std::max<int64_t>(p.resident_bytes - device, 0);
  const Json host =
      Fields().set("application_memory", application).set("constants", 0).set("dma_buffers", 0).set("tensors", 0);
  Json breakdown = Fields().set("host", host).set("neuroncore_memory_usage", std::move(by_core));
  return group(period)
      .set("neuron_runtime_used_bytes",
           Fields().set("host", application).set("neuron_device", device).set("usage_breakdown", std::move(breakdown)))
      .set("loaded_models", std::move(models));
}

Json ours(const ProcessSample& p) {
  constexpr std::string_view kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter",
                                               "all_to_all", "permute",    "broadcast"};
  Json cores = Fields();
  for (const CoreSample& c : p.cores) {
    Json engines = Fields(), status = Fields(), collectives = Fields();
    for (size_t u = 0; u < kUnits; ++u) engines.set(kUnitNames[u], 100 * c.period.share(u));
    for (size_t s = 0; s < kStatuses; ++s)
      if (c.now.statuses[s]) status.set(row_of(Status(s)).name, c.now.statuses[s]);
    for (size_t k = 0; k < std::size(kCollectives); ++k)
      if (c.now.collectives[k])
        collectives.set(kCollectives[k], Fields()
                                             .set("count", c.now.collectives[k])
                                             .set("bytes", c.now.collective_bytes[k])
                                             .set("host_seconds", double(c.now.collective_ns[k]) * 1e-9));
    const double clock = c.period.clock_ns();
    cores.set(cat(c.now.id),
              Fields()
                  .set("chip", c.now.chip)
                  .set("engine_utilization", std::move(engines))
                  .set("timed_percent", 100 * c.period.timed_share())
                  .set("hbm_bytes_per_second", clock > 0 ? c.period.hbm_bytes / clock * 1e9 : 0)
                  .set("throttled_percent", clock > 0 ? 100 * std::min(1.0, c.period.throttled_ns / clock) : 0)
                  .set("collective_percent", clock > 0 ? 100 * std::min(1.0, c.period.collective_ns / clock) : 0)
                  .set("watts", c.watts)
                  .set("lost", c.now.lost)
                  .set("executions_total", c.now.executions)
                  .set("chip_seconds_total", c.total.chip_ns * 1e-9)
                  .set("flops_total", c.total.flops)
                  .set("joules_total", c.total.joules)
                  .set("memory_limit_bytes", c.now.memory_limit)
                  .set("memory_peak_bytes", c.now.memory_peak)
                  .set("host_to_device_bytes_total", c.now.host_to_device_bytes)
                  .set("device_to_host_bytes_total", c.now.device_to_host_bytes)
                  .set("status_total", std::move(status))
                  .set("collectives_total", std::move(collectives)));
  }
  return Fields()
      .set("instance", p.instance)
      .set("libraries", p.libraries)
      .set("command", p.command)
      .set("usd_total", p.usd)
      .set("usd_per_hour", p.usd_per_hour)
      .set("cores", std::move(cores));
}

Json cpu_json(const std::array<double, 7>& percent) {
  Json out = Fields();
  for (size_t i = 0; i < percent.size(); ++i) out.set(kCpuParts[i], percent[i]);
  return out;
}

}  // namespace

Result<double> parse_period(std::string_view text) {
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, size_t(text.data() + text.size() - end));
  const double scale = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (ec != std::errc{} || scale == 0 || !(value * scale >= 0.01) || value * scale > 86400)
    return fail(Code::invalid, cat("found the period \"", text, "\", expected 10ms to 24h, for example 1s or 500ms"));
  return value * scale;
}

MonitorConfig MonitorConfig::usual() {
  MonitorConfig out;
  out.runtimes.push_back({".*", {std::begin(kRuntimeMetrics), std::end(kRuntimeMetrics)}});
  out.system_metrics = {std::begin(kSystemMetrics), std::end(kSystemMetrics)};
  return out;
}

Result<MonitorConfig> MonitorConfig::parse(const Json& json, std::string_view file) {
  if (!json.is_object())
    return fail(Code::invalid, cat("found a ", json.kind(), ", expected an object"), std::string(file));
  MonitorConfig out;
  const auto shorter = [&](const Json& in) -> Result<void> {  // one line a document: the shortest period of all
    if (const Json* const period = in.find("period"))
      out.period_s = std::min(out.period_s, TRY(parse_period(period->string())));
    return {};
  };
  if (const Json* const period = json.find("period")) out.period_s = TRY(parse_period(period->string()));
  if (const Json* const runtimes = json.find("neuron_runtimes"))
    for (const Json& r : runtimes->items()) {
      Runtime row;
      if (const Json* const filter = r.find("tag_filter")) row.tag_filter = filter->string();
      TRY(shorter(r));
      if (const Json* const metrics = r.find("metrics")) {
        row.metrics = TRY(metric_types(*metrics, kRuntimeMetrics, file));
        for (const Json& m : metrics->items()) TRY(shorter(m));
      }
      try {
        (void)std::regex(row.tag_filter);
      } catch (const std::regex_error&) {
        return fail(Code::invalid, cat("tag_filter \"", row.tag_filter, "\" is not a regular expression"),
                    std::string(file));
      }
      out.runtimes.push_back(std::move(row));
    }
  if (const Json* const metrics = json.find("system_metrics")) {
    out.system_metrics = TRY(metric_types(*metrics, kSystemMetrics, file));
    for (const Json& m : metrics->items()) TRY(shorter(m));
  }
  return out;
}

Monitor::Monitor(MonitorConfig config, MonitoredMachine machine) : config_(std::move(config)), machine_(machine) {
  for (const auto& r : config_.runtimes) filters_.emplace_back(r.tag_filter);
  host_ = read_host();
}

void Monitor::read_system(Sample& sample) {
  host_before_ = host_, host_ = read_host();
  const auto passed = double(host_.all.sum() - host_before_.all.sum());
  std::map<int64_t, ProcessReading> now;
  for (ProcessSample& p : sample.processes) {
    const ProcessReading reading = now[p.pid] = read_process(p.pid);
    const auto old = processes_.find(p.pid);
    p.resident_bytes = reading.resident_bytes;
    if (old == processes_.end() || passed <= 0) continue;
    p.cpu_user = 100 * double(reading.user_ticks - old->second.user_ticks) / passed;
    p.cpu_system = 100 * double(reading.system_ticks - old->second.system_ticks) / passed;
  }
  processes_ = std::move(now);
  if (!sample.processes.empty() && sample.processes[0].machine)
    machine_ = {sample.processes[0].machine, sample.processes[0].lnc};
}

std::map<int64_t, std::array<int64_t, size_t(PageEcc::count)>> ecc_by_chip(const Sample& sample) {
  std::map<int64_t, std::array<int64_t, size_t(PageEcc::count)>> out;
  for (const ProcessSample& p : sample.processes)
    for (const CoreSample& c : p.cores)
      for (size_t e = 0; e < c.now.ecc.size(); ++e) out[c.now.chip][e] += c.now.ecc[e];
  return out;
}

Json Monitor::system_data(const Sample& sample) const {
  const auto has = [&](std::string_view name) {
    return std::find(config_.system_metrics.begin(), config_.system_metrics.end(), name) !=
           config_.system_metrics.end();
  };
  Json out = Fields();
  if (has("memory_info"))
    out.set("memory_info", group(sample.period_s)
                               .set("memory_total_bytes", host_.memory_total)
                               .set("memory_used_bytes", host_.memory_used)
                               .set("swap_total_bytes", host_.swap_total)
                               .set("swap_used_bytes", host_.swap_used));
  if (has("neuron_hw_counters")) {
    Json devices = Json::array();
    auto ecc = ecc_by_chip(sample);
    for (int64_t chip = 0; machine_.instance && chip < machine_.instance->chips; ++chip) {
      const auto& e = ecc[chip];
      devices.push(Fields()
                       .set("neuron_device_index", chip)
                       .set("mem_ecc_corrected", e[size_t(PageEcc::mem_corrected)])
                       .set("mem_ecc_uncorrected", e[size_t(PageEcc::mem_uncorrected)])
                       .set("sram_ecc_uncorrected", e[size_t(PageEcc::sram_uncorrected)])
                       .set("sram_ecc_corrected", e[size_t(PageEcc::sram_corrected)]));
    }
    out.set("neuron_hw_counters", group(sample.period_s).set("neuron_devices", std::move(devices)));
  }
  if (has("vcpu_usage")) {
    Json each = Fields();
    for (size_t i = 0; i < host_.each.size(); ++i)
      each.set(cat(i),
               cpu_json(cpu_percent(i < host_before_.each.size() ? host_before_.each[i] : CpuTimes{}, host_.each[i])));
    out.set("vcpu_usage", group(sample.period_s)
                              .set("average_usage", cpu_json(cpu_percent(host_before_.all, host_.all)))
                              .set("usage_data", std::move(each))
                              .set("context_switch_count", host_.context_switches - host_before_.context_switches));
  }
  return out;
}

Json Monitor::document(const Sample& sample) {
  Json runtimes = Json::array();
  for (const ProcessSample& p : sample.processes)
    for (size_t r = 0; r < config_.runtimes.size(); ++r) {
      if (!std::regex_match(p.tag, filters_[r])) continue;
      const auto& metrics = config_.runtimes[r].metrics;
      const auto has = [&](std::string_view name) {
        return std::find(metrics.begin(), metrics.end(), name) != metrics.end();
      };
      Json report = Fields();
      if (has("execution_stats")) report.set("execution_stats", execution_stats(p, sample.period_s));
      if (has("memory_used")) report.set("memory_used", memory_used(p, sample.period_s));
      if (has("neuroncore_counters"))
        report.set("neuroncore_counters", counters(p, sample.period_s, {p.machine, p.lnc}));
      if (has("neuron_runtime_vcpu_usage"))
        report.set(
            "neuron_runtime_vcpu_usage",
            group(sample.period_s).set("vcpu_usage", Fields().set("user", p.cpu_user).set("system", p.cpu_system)));
      if (has("neuroncore_counters")) report.set("trine", ours(p));
      runtimes.push(Fields()
                        .set("pid", p.pid)
                        .set("address", "")
                        .set("neuron_runtime_tag", p.tag)
                        .set("error", "")
                        .set("report", std::move(report)));
      break;  // the first filter that fits
    }
  Json hardware = Fields();
  if (const arch::Instance* const i = machine_.instance)
    hardware.set("neuron_device_type", device_type(*i->chip))
        .set("neuron_device_version", cat("v", i->chip->generation + 1))  // Trainium2 is device v4 with core v3
        .set("neuroncore_version", core_version(*i->chip, machine_.lnc))
        .set("neuron_device_count", i->chips)
        .set("neuron_device_memory_size", i->chip->hbm.bytes)
        .set("neuroncore_per_device_count", i->chip->cores / machine_.lnc)
        .set("logical_neuroncore_config", machine_.lnc);
  hardware.set("error", machine_.instance ? "" : "no machine");
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return Fields()
      .set("neuron_runtime_data", std::move(runtimes))
      .set("system_data", system_data(sample))
      .set("instance_info", Fields()
                                .set("instance_name", name)
                                .set("instance_id", "i-virtual")
                                .set("instance_type", machine_.instance ? machine_.instance->name : "")
                                .set("instance_availability_zone", "")
                                .set("instance_availability_zone_id", "")
                                .set("instance_region", "")
                                .set("ami_id", "")
                                .set("subnet_id", "")
                                .set("error", ""))
      .set("neuron_hardware_info", std::move(hardware));
}

}  // namespace trine::run
