// `trine top` (`neuron-top`): what virtual devices do now, in a terminal.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "api/publish.h"
#include "api/watch.h"
#include "base/text.h"
#include "run/counters/monitor.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/watch/terminal.h"
#include "tools/watch/top_view.h"

namespace trine::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr Option kOptions[] = {
    {"--once", "", "", "print one screen and end"},
    {"--period", "", "SECONDS", "between two looks", real().otherwise("1")},
    {"--folder", "", "DIR", "where processes publish (TRINE_COUNTERS, else memory of this user)", folder()},
    kInstance,
    kJson,
};

// A second look a period later; and programs that were not timed so far get some time for it.
Result<Exit> once(const Args& args, api::Watcher& watcher, run::Monitor& monitor, double period) {
  const auto pause = [&] { std::this_thread::sleep_for(std::chrono::duration<double>(period)); };
  run::Sample sample = watcher.sample(period);
  monitor.read_system(sample);
  const auto end = Clock::now() + std::chrono::seconds(60);
  do {
    pause();
    sample = watcher.sample(period);
    monitor.read_system(sample);
    if (watcher.is_timing()) note(cat("timing ", watcher.pending(), " programs for the chip"));
  } while ((watcher.is_timing() || run::awaits_times(sample)) && Clock::now() < end);
  if (args.has("--json")) {
    print(report("top").set("sample", monitor.document(sample)).text(2) + "\n");
    return Exit::ok;
  }
  TopState state;
  state.has_colour = colour();
  state.pending = watcher.pending();
  const std::string asked = getenv_or("COLUMNS");
  const int columns = isatty(STDOUT_FILENO) ? Terminal::size().columns : asked.empty() ? 100 : std::atoi(asked.c_str());
  TopView view(sample, monitor, state);
  view.key('x');
  for (const std::string& line : view.lines(46, std::clamp(columns, 20, 400)))
    if (!line.empty()) print(line + "\n");
  return Exit::ok;
}

Result<Exit> run_top(const Args& args) {
  const std::string folder = args.get("--folder", api::counters_folder());
  if (folder.empty()) return fail(Code::not_found, "TRINE_COUNTERS=off: processes publish nothing");
  const double period = std::clamp(args.real("--period"), 0.1, 3600.0);
  const Machine machine = TRY(choose_machine(args));
  const bool is_once = args.has("--once") || args.has("--json");
  api::Watcher watcher(folder, is_once);
  const auto named = arch::find_instance(machine.instance.name);
  run::Monitor monitor(run::MonitorConfig::usual(), {named ? *named : nullptr, machine.lnc});
  if (is_once) return once(args, watcher, monitor, period);
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
    return fail(Code::io, "stdin and stdout are not a terminal; --once prints one screen without");
  Terminal terminal;
  TopState state;
  state.has_colour = colour();
  state.open = {"0"};
  run::Sample sample = watcher.sample(period);
  monitor.read_system(sample);
  auto next = Clock::now() + std::chrono::duration<double>(std::min(period, 0.3));
  for (;;) {
    state.pending = watcher.pending();
    TopView view(sample, monitor, state);
    const Terminal::Size size = Terminal::size();
    terminal.draw(view.lines(size.rows, size.columns));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
    const int key = terminal.wait_key(int(std::max<int64_t>(left, 0)));
    if (key == 'q' || key == int(Key::ended)) return Exit::ok;
    view.key(key);
    if (Clock::now() < next) continue;
    sample = watcher.sample(period);
    monitor.read_system(sample);
    next = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(period));
  }
}

}  // namespace

extern const Command command_top{
    .name = "top",
    .summary = "what virtual devices do now, as neuron-top shows it",
    .alias = "neuron-top",
    .details =
        "Keys: F utilisation or TFLOPS, a and d or 1 to 9 tabs of processes, arrows and x the tree, q quits. "
        "docs/watch.md says what each number means.",
    .examples = "trine top\ntrine top --once",
    .options = kOptions,
    .run = run_top,
};

}  // namespace trine::tools
