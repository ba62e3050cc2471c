// `trine monitor` (`neuron-monitor`): one JSON document a period; or a page for Prometheus, or the sysfs tree.
#include <csignal>
#include <cstdio>
#include <ctime>

#include <atomic>
#include <chrono>
#include <thread>

#include "api/publish.h"
#include "api/watch.h"
#include "base/file.h"
#include "base/text.h"
#include "run/counters/monitor.h"
#include "run/counters/sysfs.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/python.h"

namespace trine::tools {

extern const Command command_monitor;

namespace {

using Clock = std::chrono::steady_clock;

constexpr Option kOptions[] = {
    {"--config-file", "-c", "FILE", "neuron-monitor's configuration: period, runtimes by tag, metrics", file(".json")},
    {"--period", "", "TIME", "in place of the configuration's (5s)"},
    {"--count", "", "N", "end after so many documents; 0: never", whole().otherwise("0")},
    {"--verbose", "", "LEVEL", "0 to 4; from 3 on, say on stderr what is timed", whole(0, 4).otherwise("0")},
    {"--prometheus", "", "PORT", "serve metrics for Prometheus at /metrics; 0: any free port", whole(0, 65535)},
    {"--page", "", "PORT", "serve a page that shows it; 0: any free port", whole(0, 65535)},
    {"--stdin", "", "", "serve documents that come on stdin, as neuron-monitor-prometheus.py does"},
    {"--address", "", "HOST", "where to listen", Values().otherwise("127.0.0.1")},
    {"--token-file", "", "FILE", "clients must send its line as a bearer token; needed where others can connect",
     file()},
    {"--cert-file", "", "FILE", "serve by TLS with this certificate", file(".pem .crt")},
    {"--key-file", "", "FILE", "and its key", file(".pem .key")},
    {"--sysfs", "", "DIR", "write the driver's sysfs tree there, again each period", folder()},
    {"--folder", "", "DIR", "where processes publish (TRINE_COUNTERS, else memory of this user)", folder()},
    kInstance,
};

std::atomic<bool> is_over = false;

Result<run::MonitorConfig> config_of(const Args& args) {
  run::MonitorConfig out = run::MonitorConfig::usual();
  if (args.has("--config-file")) {
    const std::string path = args.get("--config-file");
    out = TRY(run::MonitorConfig::parse(TRY(parse_json(TRY(read_file(path)), path)), path));
  }
  if (args.has("--period")) out.period_s = TRY(run::parse_period(args.get("--period")));
  return out;
}

Result<Exit> run_monitor(const Args& args) {
  if (args.has("--prometheus")) return become_python(command_monitor, args, "trine.watch.serve");
  if (args.has("--page")) return become_python(command_monitor, args, "trine.pages.watch");
  const std::string folder = args.get("--folder", api::counters_folder());
  if (folder.empty()) return fail(Code::not_found, "TRINE_COUNTERS=off: processes publish nothing");
  const run::MonitorConfig config = TRY(config_of(args));
  const Machine machine = TRY(choose_machine(args));
  const auto named = arch::find_instance(machine.instance.name);
  api::Watcher watcher(folder);
  run::Monitor monitor(config, {named ? *named : nullptr, machine.lnc});
  run::SysfsTree tree(args.get("--sysfs"));
  struct sigaction end{};
  end.sa_handler = [](int) { is_over = true; };
  for (const int s : {SIGINT, SIGTERM}) ::sigaction(s, &end, nullptr);
  watcher.sample(config.period_s);
  auto next = Clock::now();
  for (int64_t n = 0, count = args.integer("--count"); !is_over && (count == 0 || n < count); ++n) {
    next += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(config.period_s));
    while (!is_over && Clock::now() < next)
      std::this_thread::sleep_for(std::min<Clock::duration>(next - Clock::now(), std::chrono::milliseconds(200)));
    if (is_over) break;
    run::Sample sample = watcher.sample(config.period_s);
    monitor.read_system(sample);
    if (args.integer("--verbose") >= 3 && watcher.is_timing()) note(cat("timing ", watcher.pending(), " programs"));
    if (args.has("--sysfs")) {
      TRY(tree.update(sample, monitor.machine()));
      continue;
    }
    print(monitor.text(sample) + "\n");
    if (std::fflush(stdout) != 0) return fail(Code::io, "nobody reads on");
  }
  return is_over ? Exit::interrupted : Exit::ok;
}

}  // namespace

const Command command_monitor{
    .name = "monitor",
    .summary = "counters of virtual devices as neuron-monitor's JSON, for Prometheus, or as a sysfs tree",
    .alias = "neuron-monitor",
    .details = "docs/watch.md says what each number means, and has a Grafana board and alert rules.",
    .examples =
        "trine monitor -c conf.json\n"
        "trine monitor --period 1s --count 3\n"
        "trine monitor --prometheus 8000\n"
        "trine monitor --sysfs /tmp/neuron-sysfs",
    .options = kOptions,
    .run = run_monitor,
};

}  // namespace trine::tools
