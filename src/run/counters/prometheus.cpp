// Families of metrics, filled from a document; see prometheus.h.
#include "run/counters/prometheus.h"

#include <cmath>
#include <vector>

#include "base/text.h"

namespace trine::run {

namespace {

struct Family {
  const char *name, *type, *help;
};
// The first part is the companion script's, its names and labels unchanged.
constexpr Family kFamilies[] = {
    {"neuroncore_utilization_ratio", "gauge", "NeuronCore utilization, 0 to 1, on the chip's clock"},
    {"neuroncore_memory_usage_constants", "gauge", "Device memory of constants, in bytes"},
    {"neuroncore_memory_usage_model_code", "gauge", "Device memory of instructions, in bytes"},
    {"neuroncore_memory_usage_model_shared_scratchpad", "gauge", "Device memory of temporaries, in bytes"},
    {"neuroncore_memory_usage_runtime_memory", "gauge", "Device memory of the runtime, in bytes"},
    {"neuroncore_memory_usage_tensors", "gauge", "Device memory of tensors, in bytes"},
    {"neuron_runtime_memory_used_bytes", "gauge", "Memory used by the runtime, in bytes"},
    {"neuron_runtime_vcpu_usage_ratio", "gauge", "Share of the host's processors the process uses"},
    {"execution_errors_total", "counter", "Executions that ended with an error, by its kind"},
    {"execution_status_total", "counter", "Executions by how they ended"},
    {"execution_latency_seconds", "gauge", "Latency of an execution on this host"},
    {"hardware_ecc_events_total", "counter", "ECC events of a device"},
    {"system_vcpu_count", "untyped",  // Neuron's name; a gauge must not end in _count
     "Processors of the host"},
    {"system_vcpu_usage_ratio", "gauge", "Share of the host's processors in use"},
    {"system_memory_total_bytes", "gauge", "Memory of the host"},
    {"system_memory_used_bytes", "gauge", "Memory of the host in use"},
    {"system_swap_total_bytes", "gauge", "Swap of the host"},
    {"system_swap_used_bytes", "gauge", "Swap of the host in use"},
    {"instance_info", "gauge", "The instance, as labels"},
    {"neuron_hardware_info", "gauge", "Its devices, as labels"},
    {"trine_engine_utilization_ratio", "gauge", "Share of the chip's clock in which an engine works"},
    {"trine_neuroncore_flops_per_second", "gauge", "Floating-point operations a second of the chip's clock"},
    {"trine_neuroncore_hbm_bytes_per_second", "gauge", "HBM traffic a second of the chip's clock"},
    {"trine_neuroncore_throttled_ratio", "gauge", "Share of the chip's clock in which the core is throttled"},
    {"trine_neuroncore_collective_ratio", "gauge", "Share of the chip's clock in collectives"},
    {"trine_neuroncore_power_watts", "gauge", "Power of the core's share of its chip"},
    {"trine_neuroncore_lost", "gauge", "1 where an injected fault took the core away"},
    {"trine_neuroncore_memory_limit_bytes", "gauge", "Device memory of the core"},
    {"trine_neuroncore_memory_peak_bytes", "gauge", "The most that was in use"},
    {"trine_neuroncore_timed_ratio", "gauge", "Share of the period's runs whose time on the chip is known"},
    {"trine_device_latency_seconds", "gauge", "Latency of an execution on the chip"},
    {"trine_neuroncore_chip_seconds_total", "counter", "Time programs took on the chip"},
    {"trine_neuroncore_executions_total", "counter", "Executions"},
    {"trine_neuroncore_flops_total", "counter", "Floating-point operations"},
    {"trine_neuroncore_energy_joules_total", "counter", "Energy of the core while programs ran"},
    {"trine_nrt_status_total", "counter", "Executions by status of the runtime"},
    {"trine_transferred_bytes_total", "counter", "Bytes between host and device"},
    {"trine_collectives_total", "counter", "Collectives between processes"},
    {"trine_collective_bytes_total", "counter", "Their bytes, the larger buffer of each"},
    {"trine_cost_usd_total", "counter", "Dollars of the cores in use, on the chip's clock"},
    {"trine_price_usd_per_hour", "gauge", "Price of the cores in use"},
};
constexpr size_t kFamilyCount = std::size(kFamilies);

double number(const Json* in, std::string_view key) {
  const Json* const found = in ? in->find(key) : nullptr;
  const double v = found ? found->number() : 0;
  return std::isfinite(v) ? v : 0;
}

const Json* at(const Json* in, std::string_view key) { return in ? in->find(key) : nullptr; }

const Json::Object& members(const Json* in) {
  static const Json kNone;
  return (in ? *in : kNone).members();
}
const Json::Array& items(const Json* in) {
  static const Json kNone;
  return (in ? *in : kNone).items();
}

std::string label(std::string_view name, std::string_view value) {
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

class Writer {
 public:
  explicit Writer(const Json& document) {
    const Json* const info = document.find("instance_info");
    const auto text = [&](std::string_view key) {
      const Json* const found = at(info, key);
      return found ? found->string() : std::string();
    };
    base_ =
        join(std::vector<std::string>{label("instance_name", text("instance_name")),
                                      label("instance_id", text("instance_id")),
                                      label("instance_type", text("instance_type")),
                                      label("availability_zone", text("instance_availability_zone")),
                                      label("region", text("instance_region")), label("subnet_id", text("subnet_id"))},
             ",");
  }

  void put(std::string_view name, double value, std::string_view labels = "") {
    size_t f = 0;
    while (f < kFamilyCount && name != kFamilies[f].name) ++f;
    if (f == kFamilyCount) return;
    append(rows_[f], name, labels);
    rows_[f] += ' ';
    append_text(rows_[f], value);
    rows_[f] += '\n';
  }
  std::string key(std::string_view name, std::string_view labels) const {
    std::string out;
    append(out, name, labels);
    return out;
  }
  std::string text() const {
    std::string out;
    for (size_t f = 0; f < kFamilyCount; ++f)
      if (!rows_[f].empty())
        out += cat("# HELP ", kFamilies[f].name, " ", kFamilies[f].help, "\n# TYPE ", kFamilies[f].name, " ",
                   kFamilies[f].type, "\n", rows_[f]);
    return out;
  }

 private:
  void append(std::string& to, std::string_view name, std::string_view labels) const {
    to += name;
    to += '{';
    to += base_;
    if (!labels.empty()) to += ',';
    to += labels;
    to += '}';
  }
  std::string base_;
  std::string rows_[kFamilyCount];
};

void put_ours(Writer& w, const Json* trine, const std::string& tag) {
  if (!trine) return;
  for (const auto& [core, of] : members(trine->find("cores"))) {
    const std::string labels = cat(label("neuroncore", core), ",", tag);
    for (const auto& [engine, percent] : members(of.find("engine_utilization")))
      w.put("trine_engine_utilization_ratio", percent.number() / 100, cat(label("engine", engine), ",", labels));
    w.put("trine_neuroncore_hbm_bytes_per_second", number(&of, "hbm_bytes_per_second"), labels);
    w.put("trine_neuroncore_throttled_ratio", number(&of, "throttled_percent") / 100, labels);
    w.put("trine_neuroncore_collective_ratio", number(&of, "collective_percent") / 100, labels);
    w.put("trine_neuroncore_power_watts", number(&of, "watts"), labels);
    w.put("trine_neuroncore_lost", at(&of, "lost") && at(&of, "lost")->boolean() ? 1 : 0, labels);
    w.put("trine_neuroncore_memory_limit_bytes", number(&of, "memory_limit_bytes"), labels);
    w.put("trine_neuroncore_memory_peak_bytes", number(&of, "memory_peak_bytes"), labels);
    w.put("trine_neuroncore_timed_ratio", number(&of, "timed_percent") / 100, labels);
    w.put("trine_neuroncore_chip_seconds_total", number(&of, "chip_seconds_total"), labels);
    w.put("trine_neuroncore_executions_total", number(&of, "executions_total"), labels);
    w.put("trine_neuroncore_flops_total", number(&of, "flops_total"), labels);
    w.put("trine_neuroncore_energy_joules_total", number(&of, "joules_total"), labels);
    for (const auto& [status, count] : members(of.find("status_total")))
      w.put("trine_nrt_status_total", count.number(), cat(label("status", status), ",", labels));
    for (const std::string_view direction : {"host_to_device", "device_to_host"})
      w.put("trine_transferred_bytes_total", number(&of, cat(direction, "_bytes_total")),
            cat(label("direction", direction), ",", labels));
    for (const auto& [kind, sums] : members(of.find("collectives_total"))) {
      w.put("trine_collectives_total", number(&sums, "count"), cat(label("kind", kind), ",", labels));
      w.put("trine_collective_bytes_total", number(&sums, "bytes"), cat(label("kind", kind), ",", labels));
    }
  }
  w.put("trine_cost_usd_total", number(trine, "usd_total"), tag);
  w.put("trine_price_usd_per_hour", number(trine, "usd_per_hour"), tag);
}

void put_latency(Writer& w, const Json* latency, std::string_view name, const std::string& tag) {
  for (const auto& [percentile, seconds] : members(latency))
    w.put(name, seconds.number(), cat(label("percentile", percentile), ",", tag));
}

void put_system(Writer& w, const Json* system) {
  if (const Json* const vcpu = at(system, "vcpu_usage")) {
    const Json* const usage = vcpu->find("average_usage");
    w.put("system_vcpu_count", double(members(vcpu->find("usage_data")).size()));
    w.put("system_vcpu_usage_ratio", (number(usage, "user") + number(usage, "nice")) / 100,
          label("usage_type", "user"));
    w.put("system_vcpu_usage_ratio",
          (number(usage, "system") + number(usage, "io_wait") + number(usage, "irq") + number(usage, "soft_irq")) / 100,
          label("usage_type", "system"));
  }
  if (const Json* const memory = at(system, "memory_info"))
    for (const char* what : {"memory_total_bytes", "memory_used_bytes", "swap_total_bytes", "swap_used_bytes"})
      w.put(cat("system_", what), number(memory, what));
  for (const Json& device : items(at(at(system, "neuron_hw_counters"), "neuron_devices")))
    for (const char* event : {"mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected"})
      w.put("hardware_ecc_events_total", number(&device, event),
            cat(label("event_type", event), ",",
                label("neuron_device_index", cat(int64_t(number(&device, "neuron_device_index"))))));
}

}  // namespace

std::string Exposition::text(const Json& document) {
  Writer w(document);
  std::map<std::string, double> sums;  // of processes that are gone nothing is kept
  const auto add = [&](std::string_view name, double more, const std::string& labels) {
    const std::string key = w.key(name, labels);
    w.put(name, sums[key] = sums_[key] + std::max(more, 0.0), labels);
  };
  for (const Json& runtime : items(document.find("neuron_runtime_data"))) {
    const Json* const name = runtime.find("neuron_runtime_tag");
    const std::string tag = label("runtime_tag", name ? name->string() : "");
    const Json* const report = runtime.find("report");
    for (const auto& [core, of] : members(at(at(report, "neuroncore_counters"), "neuroncores_in_use"))) {
      const std::string labels = cat(label("neuroncore", core), ",", tag);
      w.put("neuroncore_utilization_ratio", number(&of, "neuroncore_utilization") / 100, labels);
      w.put("trine_neuroncore_flops_per_second", number(&of, "flops"), labels);
    }
    const Json* const used = at(at(report, "memory_used"), "neuron_runtime_used_bytes");
    for (const char* where : {"host", "neuron_device"})
      if (used)
        w.put("neuron_runtime_memory_used_bytes", number(used, where), cat(label("memory_location", where), ",", tag));
    for (const auto& [core, classes] : members(at(at(used, "usage_breakdown"), "neuroncore_memory_usage")))
      for (const auto& [which, bytes] : classes.members())
        w.put(cat("neuroncore_memory_usage_", which), bytes.number(),
              cat(label("neuroncore", core), ",", label("memory_location", "None"), ",", tag));
    const Json* const cpu = at(at(report, "neuron_runtime_vcpu_usage"), "vcpu_usage");
    for (const char* which : {"user", "system"})
      if (cpu)
        w.put("neuron_runtime_vcpu_usage_ratio", number(cpu, which) / 100, cat(label("usage_type", which), ",", tag));
    const Json* const stats = at(report, "execution_stats");
    for (const auto& [kind, count] : members(at(stats, "error_summary")))
      add("execution_errors_total", count.number(), cat(label("error_type", kind), ",", tag));
    for (const auto& [kind, count] : members(at(stats, "execution_summary")))
      add("execution_status_total", count.number(), cat(label("status_type", kind), ",", tag));
    put_latency(w, at(at(stats, "latency_stats"), "total_latency"), "execution_latency_seconds", tag);
    put_latency(w, at(at(stats, "latency_stats"), "device_latency"), "trine_device_latency_seconds", tag);
    put_ours(w, at(report, "trine"), tag);
  }
  put_system(w, document.find("system_data"));
  w.put("instance_info", 1);
  const Json* const hardware = document.find("neuron_hardware_info");
  w.put("neuron_hardware_info", 1,
        cat(label("neuron_device_count", cat(int64_t(number(hardware, "neuron_device_count")))), ",",
            label("neuroncore_per_device_count", cat(int64_t(number(hardware, "neuroncore_per_device_count"))))));
  sums_ = std::move(sums);
  return w.text();
}

}  // namespace trine::run
