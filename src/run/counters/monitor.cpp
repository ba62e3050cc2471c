// neuron-monitor's configuration, and what a monitor keeps between two samples; see monitor.h.
#include "run/counters/monitor.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace trine::run {

namespace {

constexpr std::string_view kRuntimeMetrics[] = {"neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage",
                                                "execution_stats"};
constexpr std::string_view kSystemMetrics[] = {"vcpu_usage", "memory_info", "neuron_hw_counters"};

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

const MonitorConfig::Runtime* Monitor::runtime_of(const ProcessSample& p) const {
  for (size_t r = 0; r < config_.runtimes.size(); ++r)
    if (std::regex_match(p.tag, filters_[r])) return &config_.runtimes[r];
  return nullptr;
}

}  // namespace trine::run
