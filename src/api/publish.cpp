// The environment as page options; see publish.h.
#include "api/publish.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/machine.h"
#include "base/text.h"
#include "run/devices/device.h"
#include "run/faults/inject.h"

namespace trine::api {

namespace {

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::stringstream words;
  words << file.rdbuf();
  std::string out = words.str();
  while (!out.empty() && out.back() == '\0') out.pop_back();
  for (char& c : out)
    if (c == '\0' || c == '\n') c = ' ';
  return out;
}

std::shared_ptr<run::Page> make_process_page(std::string_view library) {
  run::PageOptions options = page_options(library);
  const auto machine = choose_machine({});
  if (options.folder.empty() || !machine) return nullptr;
  const auto visible = visible_cores(*machine);
  options.instance = machine->instance.name, options.lnc = machine->lnc;
  const int64_t share = machine->chip().hbm.bytes / machine->chip().cores * machine->lnc;
  for (const run::DeviceInfo& d : run::device_infos(machine->instance, machine->lnc))
    if (!visible || visible->empty() || std::find(visible->begin(), visible->end(), d.id) != visible->end())
      options.cores.push_back({d.id, d.chip, d.core, share});
  const auto made = run::Page::make(options);
  return made ? *made : nullptr;
}

}  // namespace

std::string counters_folder() {
  const std::string asked = getenv_or("TRINE_COUNTERS");
  if (asked == "off" || asked == "0") return "";
  if (!asked.empty()) return asked;
  std::error_code none;
  const bool has_memory = std::filesystem::is_directory("/dev/shm", none);
  return cat(has_memory ? "/dev/shm" : "/tmp", "/trine-", int64_t(::geteuid()));
}

std::string dump_folder() { return getenv_or("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY"); }

void set_faults_from_environment() {
  static const bool kIsRead = [] {
    const std::string text = getenv_or("TRINE_FAULT");
    if (text.empty()) return true;
    const auto faults = run::parse_faults(text);
    if (!faults) std::fprintf(stderr, "TRINE_FAULT: %s\n%s", faults.error().text().c_str(), run::faults_help().c_str());
    const int64_t timeout = std::atoll(getenv_or("NEURON_RT_EXEC_TIMEOUT", "30").c_str());
    if (faults) run::Injector::process().set(*faults, dump_folder(), timeout > 0 ? timeout : 30);
    return true;
  }();
  (void)kIsRead;
}

run::PageOptions page_options(std::string_view library) {
  set_faults_from_environment();
  return {.folder = counters_folder(),
          .library = std::string(library),
          .tag = getenv_or("NEURON_PROCESS_TAG").substr(0, 255),
          .command = command_line(),
          .runtime_version = TRINE_VERSION,
          .faults = run::time_faults(run::Injector::process().faults())};
}

run::Page* process_page(std::string_view library) {
  static auto* const kPage =
      new std::shared_ptr<run::Page>(make_process_page(library));  // programs may outlive statics
  return kPage->get();
}

size_t process_core() {
  static const size_t kCore = [] {
    const run::Page* const page = process_page("core");
    const int rank = std::atoi(getenv_or("LOCAL_RANK", "0").c_str());
    return page && page->core_count() > 0 && rank > 0 ? size_t(rank) % page->core_count() : size_t{0};
  }();
  return kCore;
}

}  // namespace trine::api
