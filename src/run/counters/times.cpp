// Times of programs as small files; see times.h.
#include "run/counters/times.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/text.h"

namespace trine::run {

const std::array<const char*, kUnits> kUnitNames = {"tensor", "vector", "scalar", "gpsimd", "sync", "dma"};

void ProgramTime::add(const Report& part) {
  const double cores = std::max(part.cores, 1);
  ns += part.time_ns, launch_ns += part.launch_ns;
  for (size_t u = 0; u < std::min(kUnits, part.engines.size()); ++u) busy_ns[u] += part.engines[u].busy_ns / cores;
  flops += double(part.flops) / cores;
  hbm_bytes += double(part.traffic.hbm_read + part.traffic.hbm_write) / cores;
  throttled_ns += part.throttled_ns / cores;
  joules += part.cost.chip_joules / cores;
}

Json ProgramTime::json() const {
  Json busy = Json::object();
  for (size_t u = 0; u < kUnits; ++u) busy.set(kUnitNames[u], busy_ns[u]);
  return Json::object()
      .set("version", 1)
      .set("ns", ns)
      .set("launch_ns", launch_ns)
      .set("collective_ns", collective_ns)
      .set("busy_ns", std::move(busy))
      .set("flops", flops)
      .set("hbm_bytes", hbm_bytes)
      .set("throttled_ns", throttled_ns)
      .set("joules", joules)
      .set("code_bytes", code_bytes)
      .set("why_not", why_not);
}

Result<ProgramTime> ProgramTime::parse(const Json& json) {
  const auto number = [&](const Json& in, std::string_view key) {
    const Json* const found = in.find(key);
    return found ? std::max(found->number(), 0.0) : 0.0;
  };
  if (number(json, "version") != 1) return fail(Code::unsupported, "times of another version");
  ProgramTime out;
  out.ns = number(json, "ns"), out.launch_ns = number(json, "launch_ns");
  out.collective_ns = number(json, "collective_ns");
  if (const Json* const busy = json.find("busy_ns"))
    for (size_t u = 0; u < kUnits; ++u) out.busy_ns[u] = number(*busy, kUnitNames[u]);
  out.flops = number(json, "flops"), out.hbm_bytes = number(json, "hbm_bytes");
  out.throttled_ns = number(json, "throttled_ns"), out.joules = number(json, "joules");
  out.code_bytes = int64_t(std::min(number(json, "code_bytes"), 1e15));
  if (const Json* const why = json.find("why_not")) out.why_not = why->string();
  return out;
}

ProgramTimes::ProgramTimes(std::string folder, std::string source)
    : folder_(std::move(folder) + "/times"), source_(std::move(source)) {}

std::string ProgramTimes::path(const std::string& key, const std::string& instance) const {
  return cat(folder_, "/", key, ".", instance, ".", source_, ".json");
}

const ProgramTime* ProgramTimes::find(const std::string& key, const std::string& instance) {
  const std::string file = path(key, instance);
  if (const auto found = known_.find(file); found != known_.end()) return &found->second;
  if (::access(file.c_str(), R_OK) != 0) return nullptr;
  const auto text = read_file(file);
  if (!text) return nullptr;
  const auto json = parse_json(*text);
  auto time = json ? ProgramTime::parse(*json) : Result<ProgramTime>(json.error());
  return time ? &known_.emplace(file, *std::move(time)).first->second : nullptr;
}

Result<void> ProgramTimes::store(const std::string& key, const std::string& instance, const ProgramTime& time) {
  ::mkdir(folder_.c_str(), 0700);
  const std::string file = path(key, instance), begun = cat(file, ".", int64_t(::getpid()));
  TRY(write_file(begun, time.json().text()));
  if (::rename(begun.c_str(), file.c_str()) != 0) return fail(Code::io, "could not be written", file);
  return {};
}

}  // namespace trine::run
