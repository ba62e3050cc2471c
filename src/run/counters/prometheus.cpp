// Families of metrics, a row each: its name, type, help, and how its rows are written; see prometheus.h.
#include "run/counters/prometheus.h"

#include <cmath>

#include "base/text.h"
#include "run/counters/scrape.h"

namespace trine::run {

namespace {

using Core = Scrape::Core;
using Runtime = Scrape::Runtime;
using Sums = std::map<std::string, double>;

struct Family;

// Writes the rows of one family; its head comes with the first of them.
class Rows {
 public:
  Rows(std::string& out, const Family& family, const std::string& instance, const Sums& before, Sums& sums)
      : out_(out), family_(family), instance_(instance), before_(before), sums_(sums) {}

  // `more` and `labels` are labels as they stand in a row.
  void put(double value, std::string_view labels = {}, std::string_view more = {}) {
    if (std::isnan(value)) return;
    if (!std::isfinite(value)) value = 0;
    if (!is_begun_) begin();
    out_ += head_;
    for (const std::string_view part : {more, labels}) {
      if (part.empty()) continue;
      out_ += ',';
      out_ += part;
    }
    out_ += "} ";
    if (value == std::floor(value) && std::abs(value) < 1e15)  // most are counts; this is the faster way
      append_text(out_, int64_t(value));
    else
      append_text(out_, value);
    out_ += '\n';
  }
  // A counter of what documents count per period.
  void add(double more_of_it, const std::string& labels, const std::string& more) {
    const std::string key = cat(head_name(), "{", more, ",", labels);
    const auto was = before_.find(key);
    const double sum =
        (was == before_.end() ? 0 : was->second) + std::max(std::isfinite(more_of_it) ? more_of_it : 0, 0.0);
    sums_[key] = sum;
    put(sum, labels, more);
  }

 private:
  std::string_view head_name() const;
  void begin();

  std::string& out_;
  const Family& family_;
  const std::string& instance_;
  const Sums& before_;
  Sums& sums_;
  std::string head_;
  bool is_begun_ = false;
};

struct Family {
  const char *name, *type, *help;
  void (*rows)(Rows&, const Scrape&);
};

std::string_view Rows::head_name() const { return family_.name; }
void Rows::begin() {
  is_begun_ = true;
  out_ += cat("# HELP ", family_.name, " ", family_.help, "\n# TYPE ", family_.name, " ", family_.type, "\n");
  head_ = cat(family_.name, "{", instance_);
}

template <double Core::* kField>
void of_core(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes)
    for (const Core& c : r.cores) rows.put(c.*kField, c.labels);
}
template <size_t kWhich>
void of_memory(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes)
    for (const Core& c : r.cores)
      for (const auto& [name, bytes] : c.memory)
        if (name == kCoreMemoryNames[kWhich]) rows.put(bytes, c.memory_labels);
}
template <Scrape::Named Core::* kField, const char* kLabel>
void by_name(Rows& rows, const Scrape& s) {
  std::map<std::string_view, std::string, std::less<>> labels;
  for (const Runtime& r : s.runtimes)
    for (const Core& c : r.cores)
      for (const auto& [name, value] : c.*kField) {
        std::string& label = labels[name];
        if (label.empty()) label = prometheus_label(kLabel, name);
        rows.put(value, c.labels, label);
      }
}
template <double Scrape::Collective::* kField>
void of_collectives(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes)
    for (const Core& c : r.cores)
      for (const Scrape::Collective& k : c.collectives) rows.put(k.*kField, c.labels, prometheus_label("kind", k.kind));
}
template <double Runtime::* kField>
void of_runtime(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes) rows.put(r.*kField, r.label);
}
template <Scrape::Named Runtime::* kField, const char* kLabel>
void counted(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes)
    for (const auto& [name, value] : r.*kField) rows.add(value, r.label, prometheus_label(kLabel, name));
}
template <Scrape::Named Runtime::* kField>
void latencies(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes)
    for (const auto& [name, value] : r.*kField) rows.put(value, r.label, prometheus_label("percentile", name));
}
template <double Scrape::* kField>
void of_host(Rows& rows, const Scrape& s) {
  rows.put(s.*kField);
}
void runtime_memory(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes) {
    rows.put(r.host_bytes, r.label, "memory_location=\"host\"");
    rows.put(r.device_bytes, r.label, "memory_location=\"neuron_device\"");
  }
}
void runtime_vcpu(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes) {
    rows.put(r.cpu_user, r.label, "usage_type=\"user\"");
    rows.put(r.cpu_system, r.label, "usage_type=\"system\"");
  }
}
void system_vcpu(Rows& rows, const Scrape& s) {
  rows.put(s.vcpu_user, "usage_type=\"user\"");
  rows.put(s.vcpu_system, "usage_type=\"system\"");
}
void ecc(Rows& rows, const Scrape& s) {
  for (const Scrape::Ecc& e : s.ecc)
    for (const auto& [event, count] : e.events)
      rows.put(count, prometheus_label("neuron_device_index", cat(e.device)), prometheus_label("event_type", event));
}
void transferred(Rows& rows, const Scrape& s) {
  for (const Runtime& r : s.runtimes)
    for (const Core& c : r.cores) {
      rows.put(c.to_device, c.labels, "direction=\"host_to_device\"");
      rows.put(c.from_device, c.labels, "direction=\"device_to_host\"");
    }
}
void instance_info(Rows& rows, const Scrape&) { rows.put(1); }
void hardware_info(Rows& rows, const Scrape& s) {
  rows.put(1, cat(prometheus_label("neuron_device_count", cat(s.devices)), ",",
                  prometheus_label("neuroncore_per_device_count", cat(s.cores_per_device))));
}

constexpr char kEngine[] = "engine", kStatus[] = "status", kErrorType[] = "error_type", kStatusType[] = "status_type";

// The first part is the companion script's, its names and labels unchanged.
constexpr Family kFamilies[] = {
    {"neuroncore_utilization_ratio", "gauge", "NeuronCore utilization, 0 to 1, on the chip's clock",
     of_core<&Core::utilisation>},
    {"neuroncore_memory_usage_constants", "gauge", "Device memory of constants, in bytes", of_memory<0>},
    {"neuroncore_memory_usage_model_code", "gauge", "Device memory of instructions, in bytes", of_memory<1>},
    {"neuroncore_memory_usage_model_shared_scratchpad", "gauge", "Device memory of temporaries, in bytes",
     of_memory<2>},
    {"neuroncore_memory_usage_runtime_memory", "gauge", "Device memory of the runtime, in bytes", of_memory<3>},
    {"neuroncore_memory_usage_tensors", "gauge", "Device memory of tensors, in bytes", of_memory<4>},
    {"neuron_runtime_memory_used_bytes", "gauge", "Memory used by the runtime, in bytes", runtime_memory},
    {"neuron_runtime_vcpu_usage_ratio", "gauge", "Share of the host's processors the process uses", runtime_vcpu},
    {"execution_errors_total", "counter", "Executions that ended with an error, by its kind",
     counted<&Runtime::errors, kErrorType>},
    {"execution_status_total", "counter", "Executions by how they ended", counted<&Runtime::outcomes, kStatusType>},
    {"execution_latency_seconds", "gauge", "Latency of an execution on this host", latencies<&Runtime::total_latency>},
    {"hardware_ecc_events_total", "counter", "ECC events of a device", ecc},
    {"system_vcpu_count", "untyped",  // Neuron's name; a gauge must not end in _count
     "Processors of the host", of_host<&Scrape::vcpus>},
    {"system_vcpu_usage_ratio", "gauge", "Share of the host's processors in use", system_vcpu},
    {"system_memory_total_bytes", "gauge", "Memory of the host", of_host<&Scrape::memory_total>},
    {"system_memory_used_bytes", "gauge", "Memory of the host in use", of_host<&Scrape::memory_used>},
    {"system_swap_total_bytes", "gauge", "Swap of the host", of_host<&Scrape::swap_total>},
    {"system_swap_used_bytes", "gauge", "Swap of the host in use", of_host<&Scrape::swap_used>},
    {"instance_info", "gauge", "The instance, as labels", instance_info},
    {"neuron_hardware_info", "gauge", "Its devices, as labels", hardware_info},
    {"trine_engine_utilization_ratio", "gauge", "Share of the chip's clock in which an engine works",
     by_name<&Core::engines, kEngine>},
    {"trine_neuroncore_flops_per_second", "gauge", "Floating-point operations a second of the chip's clock",
     of_core<&Core::flops_per_s>},
    {"trine_neuroncore_hbm_bytes_per_second", "gauge", "HBM traffic a second of the chip's clock",
     of_core<&Core::hbm_bytes_per_s>},
    {"trine_neuroncore_throttled_ratio", "gauge", "Share of the chip's clock in which the core is throttled",
     of_core<&Core::throttled>},
    {"trine_neuroncore_collective_ratio", "gauge", "Share of the chip's clock in collectives",
     of_core<&Core::collective>},
    {"trine_neuroncore_power_watts", "gauge", "Power of the core's share of its chip", of_core<&Core::watts>},
    {"trine_neuroncore_lost", "gauge", "1 where an injected fault took the core away", of_core<&Core::lost>},
    {"trine_neuroncore_memory_limit_bytes", "gauge", "Device memory of the core", of_core<&Core::memory_limit>},
    {"trine_neuroncore_memory_peak_bytes", "gauge", "The most that was in use", of_core<&Core::memory_peak>},
    {"trine_neuroncore_timed_ratio", "gauge", "Share of the period's runs whose time on the chip is known",
     of_core<&Core::timed>},
    {"trine_device_latency_seconds", "gauge", "Latency of an execution on the chip",
     latencies<&Runtime::device_latency>},
    {"trine_neuroncore_chip_seconds_total", "counter", "Time programs took on the chip", of_core<&Core::chip_seconds>},
    {"trine_neuroncore_executions_total", "counter", "Executions", of_core<&Core::executions>},
    {"trine_neuroncore_flops_total", "counter", "Floating-point operations", of_core<&Core::flops>},
    {"trine_neuroncore_energy_joules_total", "counter", "Energy of the core while programs ran",
     of_core<&Core::joules>},
    {"trine_nrt_status_total", "counter", "Executions by status of the runtime", by_name<&Core::statuses, kStatus>},
    {"trine_transferred_bytes_total", "counter", "Bytes between host and device", transferred},
    {"trine_collectives_total", "counter", "Collectives between processes", of_collectives<&Scrape::Collective::count>},
    {"trine_collective_bytes_total", "counter", "Their bytes, the larger buffer of each",
     of_collectives<&Scrape::Collective::bytes>},
    {"trine_cost_usd_total", "counter", "Dollars of the cores in use, on the chip's clock", of_runtime<&Runtime::usd>},
    {"trine_price_usd_per_hour", "gauge", "Price of the cores in use", of_runtime<&Runtime::usd_per_hour>},
};

}  // namespace

const std::string& Exposition::text(const Scrape& scrape) {
  page_.clear();
  Sums sums;
  for (const Family& family : kFamilies) {
    Rows rows(page_, family, scrape.instance, sums_, sums);
    family.rows(rows, scrape);
  }
  sums_ = std::move(sums);
  return page_;
}

const std::string& Exposition::text(const Sample& sample, const Monitor& monitor) {
  return text(Scrape::of(sample, monitor));
}
const std::string& Exposition::text(const Json& document) { return text(Scrape::of(document)); }

}  // namespace trine::run
