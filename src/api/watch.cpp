// Compiles, times, and hands readings on; see watch.h.
#include "api/watch.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#include "api/device.h"
#include "arch/program/container.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/stop.h"
#include "base/text.h"
#include "compile/aot/cached.h"
#include "compile/device/device.h"
#include "run/drivers/timed/timed.h"
#include "run/faults/apply.h"
#include "run/report/collective_time.h"

namespace trine::api {

namespace {

int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t code_bytes(const arch::Program& program) {
  size_t insns = 0;
  for (const auto& stream : program.streams) insns += stream.insns.size();
  return int64_t(insns * 64);  // an instruction of NeuronCore is 64 bytes
}

Result<double> collectives_ns(const std::string& uses, const arch::Instance& instance) {
  const Json list = TRY(parse_json(uses, "collectives"));
  const auto number = [](const Json& use, std::string_view key) {
    const Json* const found = use.find(key);
    return found ? found->integer() : 0;
  };
  double ns = 0;
  for (const Json& use : list.items()) {
    const Json* const kind = use.find("kind");
    const auto found = kind ? comm::collective_by_name(kind->string()) : std::nullopt;
    if (!found || number(use, "ranks") < 2) continue;
    run::CollectiveQuery query;
    query.cluster = {.instance = &instance, .nodes = 1, .lnc = instance.chip->lnc_default};
    query.ranks = number(use, "ranks");
    query.request.kind = *found, query.request.bytes = number(use, "bytes");
    ns += double(number(use, "count")) * TRY(run::answer(query)).time.ns;
  }
  return ns;
}

// With injected faults; what they cost counts as throttled.
Result<void> add_timed(run::ProgramTime& out, const arch::Program& program, const arch::Instance& instance,
                       const run::Faults& faults) {
  sim::TimeOptions options;
  run::slow_down(program, faults, options);
  const auto timed = TRY(run::run_timed(program, instance, options));
  out.add(timed.report);
  out.code_bytes += code_bytes(program);
  if (faults.empty()) return {};
  const auto well = TRY(run::run_timed(program, instance));
  out.throttled_ns += std::max(timed.report.time_ns - well.report.time_ns, 0.0);
  return {};
}

Result<run::ProgramTime> time_graph(const std::string& artifact, const DeviceChoice& choice,
                                    const arch::Instance& instance, const run::Faults& faults) {
  const Compiled compiled = TRY(compile_for_device(artifact, *instance.chip, choice));
  run::ProgramTime out;
  bool is_any = false;
  for (const compile::DevicePart& part : compiled.split().parts) {
    if (part.on_host) continue;
    is_any = true;
    TRY(add_timed(out, part.device.program, instance, faults));
  }
  if (!is_any) {
    const auto& host = compiled.split().host;
    out.why_not = host.empty() ? "it computes nothing" : cat("the host computes ", host[0].op, ": ", host[0].reason);
    return out;
  }
  out.collective_ns = TRY(collectives_ns(compiled.collectives(), instance));
  out.ns += out.collective_ns;
  return out;
}

}  // namespace

std::string times_source() { return std::string(compile::compiler_id().substr(0, 12)); }

Result<run::ProgramTime> time_written(const std::string& path, const std::string& instance) {
  const arch::Instance* const machine = TRY(arch::find_instance(instance));
  const std::string text = TRY(read_file(path));
  const size_t end = text.find('\n');
  if (end == std::string::npos) return fail(Code::invalid, "expected a line of JSON before the program", path);
  const Json head = TRY(parse_json(std::string_view(text).substr(0, end), path));
  const Json* const kind = head.find("kind");
  const std::string body = text.substr(end + 1);
  const Json* const given = head.find("faults");
  const run::Faults faults = TRY(run::parse_faults(given ? given->string() : ""));
  run::ProgramTime out;
  Result<run::ProgramTime> timed = without_throwing([&]() -> Result<run::ProgramTime> {
    if (kind && kind->string() == "program") {
      const arch::Program program = TRY(arch::parse_any(std::as_bytes(std::span(body)), path));
      TRY(add_timed(out, program, *machine, faults));
      return out;
    }
    DeviceChoice choice;
    if (const Json* const weights = head.find("weights"))
      for (const Json& w : weights->items()) choice.weights.push_back(w.integer());
    return time_graph(body, choice, *machine, faults);
  });
  if (timed || timed.error().code == Code::cancelled) return timed;
  out.why_not = timed.error().text();
  return out;
}

Watcher::Watcher(std::string folder, bool is_awaited)
    : is_awaited_(is_awaited), reader_(folder), times_(std::move(folder), times_source()) {}

Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  interrupt();  // what it compiles
  if (thread_.joinable()) thread_.join();
}

run::Sample Watcher::sample(double period_s) {
  const int64_t now_ns = wall_ns();
  std::vector<run::ProcessCounters> now = reader_.read(int64_t((3 * period_s + 10) * 1e9));
  const double since = before_ns_ ? double(now_ns - before_ns_) * 1e-9 : 1e9;
  run::Sample out = [&] {
    const std::lock_guard lock(mutex_);
    return run::make_sample(before_, now, since, now_ns, times_);
  }();
  if (!before_ns_) out.period_s = period_s;
  before_ = std::move(now), before_ns_ = now_ns;
  const std::lock_guard lock(mutex_);
  for (const run::Wanted& wanted : out.wanted) {
    if (!asked_.insert(cat(wanted.key, wanted.instance)).second) continue;
    queue_.push_back(wanted);
    ++pending_;
  }
  if (!queue_.empty() && !thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
  return out;
}

void Watcher::run() {
  if (!is_awaited_) ::setpriority(PRIO_PROCESS, id_t(::syscall(SYS_gettid)), 19);
  ThreadPool alone(1);
  const ThreadPool::Use use(alone);
  for (;;) {
    run::Wanted next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_over_ || !queue_.empty(); });
      if (is_over_) return;
      next = queue_.front();
      queue_.pop_front();
    }
    const auto time = time_written(cat(reader_.folder(), "/", next.file, ".programs/", next.key), next.instance);
    const std::lock_guard lock(mutex_);
    if (time)
      (void)times_.store(next.key, next.instance, *time).has_value();
    else
      asked_.erase(cat(next.key, next.instance));  // it could not be read now, and may be later
    --pending_;
  }
}

}  // namespace trine::api
