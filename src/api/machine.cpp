// Picks the virtual machine and remembers it; see machine.h.
#include "api/machine.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/format/json.h"
#include "base/text.h"

namespace trine::api {

namespace {

constexpr std::string_view kDefaultInstance = "trn1.2xlarge";

struct Choice {
  std::string name, by;
};

Result<Choice> chosen_name(const std::string& asked) {
  if (!asked.empty()) return Choice{asked, "--instance"};
  if (const std::string name = getenv_or("TRINE_INSTANCE"); !name.empty()) return Choice{name, "TRINE_INSTANCE"};
  std::string saved = TRY(saved_instance());
  if (!saved.empty()) return Choice{std::move(saved), "trine use"};
  return Choice{std::string(kDefaultInstance), "default"};
}

struct LncChoice {
  std::string text, by;
};

LncChoice chosen_lnc(const std::string& asked) {
  if (!asked.empty()) return {asked, "--lnc"};
  for (const char* name : {"NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"})
    if (std::string text = getenv_or(name); !text.empty()) return {std::move(text), name};
  return {};
}

Result<int64_t> read_lnc(const LncChoice& choice, const arch::Chip& chip) {
  if (choice.text.empty()) return chip.lnc_default;
  int64_t n = 0;
  const char* end = choice.text.data() + choice.text.size();
  const auto read = std::from_chars(choice.text.data(), end, n);
  if (read.ec != std::errc{} || read.ptr != end || n < 1 || n > chip.lnc_max || chip.cores % n != 0)
    return fail(Code::invalid, cat(choice.by, ": found \"", choice.text, "\", expected ",
                                   chip.lnc_max > 1 ? cat("1 to ", chip.lnc_max) : "1", " on ", chip.title));
  return n;
}

}  // namespace

std::string getenv_or(const char* name, std::string_view otherwise) {
  const char* v = std::getenv(name);
  return v ? v : std::string(otherwise);
}

Result<Machine> choose_machine(const MachineChoice& asked) {
  const Choice choice = TRY(chosen_name(asked.instance));
  Machine machine;
  machine.chosen_by = choice.by;
  if (choice.name.ends_with(".json")) {
    machine.instance = TRY(arch::load_instance_file(choice.name));
  } else {
    auto found = arch::find_instance(choice.name);
    if (!found) return fail(found.error().code, found.error().message, choice.by == "--instance" ? "" : choice.by);
    machine.instance = **found;
  }
  if (!asked.chip_file.empty()) {
    arch::Chip chip = TRY(arch::load_chip_file(asked.chip_file));
    machine.own_chip = std::make_shared<arch::Chip>(std::move(chip));
    machine.instance.chip = machine.own_chip.get();
  }
  machine.lnc = TRY(read_lnc(chosen_lnc(asked.lnc), machine.chip()));
  return machine;
}

Result<std::vector<int>> visible_cores(const Machine& machine) {
  const int64_t cores = machine.instance.cores() / machine.lnc;
  std::vector<int> out;
  const auto number = [&](std::string_view text, const char* variable) -> Result<int64_t> {
    int64_t n = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || n < 0 || n >= cores)
      return fail(Code::invalid, cat(variable, ": found \"", text, "\", expected core numbers of 0 to ", cores - 1,
                                     " on ", machine.instance.name));
    return n;
  };
  if (const std::string text = getenv_or("NEURON_RT_VISIBLE_CORES"); !text.empty()) {
    for (std::string_view part : split(text, ',')) {
      const size_t dash = part.find('-');
      const int64_t first = TRY(number(trim(part.substr(0, dash)), "NEURON_RT_VISIBLE_CORES"));
      const int64_t last =
          dash == std::string_view::npos ? first : TRY(number(trim(part.substr(dash + 1)), "NEURON_RT_VISIBLE_CORES"));
      for (int64_t core = first; core <= last; ++core) out.push_back(int(core));
    }
  } else if (const std::string count = getenv_or("NEURON_RT_NUM_CORES"); !count.empty()) {
    if (count == std::to_string(cores)) return out;
    const int64_t n = TRY(number(count, "NEURON_RT_NUM_CORES"));
    for (int64_t core = 0; core < n; ++core) out.push_back(int(core));
  }
  return out;
}

Result<std::vector<int>> process_cores(const Machine& machine, int process, std::span<const int> nodes) {
  constexpr const char *kIndex = "NEURON_PJRT_PROCESS_INDEX", *kCounts = "NEURON_PJRT_PROCESSES_NUM_DEVICES";
  const int64_t cores = machine.instance.cores() / machine.lnc;
  const size_t processes = nodes.size();
  const int node = nodes[size_t(process)];
  if (const std::string index = getenv_or(kIndex); !index.empty() && index != std::to_string(process))
    return fail(Code::invalid, cat(kIndex, ": found \"", index, "\", but this is process ", process, " of ", processes,
                                   " by jax.distributed.initialize"));
  std::vector<int> out;
  if (const std::string text = getenv_or(kCounts); !text.empty()) {
    const auto counts = split(text, ',');
    if (counts.size() != processes)
      return fail(Code::invalid, cat(kCounts, ": found \"", text, "\", expected counts of ", processes, " processes"));
    std::vector<int64_t> used(processes);  // by node
    for (size_t p = 0; p < processes; ++p) {
      const std::string_view part = trim(counts[p]);
      int64_t& first = used[size_t(nodes[p])];
      int64_t n = 0;
      const auto read = std::from_chars(part.data(), part.data() + part.size(), n);
      if (read.ec != std::errc{} || read.ptr != part.data() + part.size() || n < 1 || n > cores - first)
        return fail(Code::invalid,
                    cat(kCounts, ": found \"", text, "\", expected one count for each process, together at most the ",
                        cores, " cores of ", machine.instance.name, " on a machine"));
      for (int64_t core = first; int(p) == process && core < first + n; ++core) out.push_back(int(core));
      first += n;
    }
    return out;
  }
  out = TRY(visible_cores(machine));
  if (!out.empty() || processes == 1) return out;
  const int64_t here = std::count(nodes.begin(), nodes.end(), node);
  const int64_t mine = std::count(nodes.begin(), nodes.begin() + process, node);
  const int64_t share = cores / here;
  if (share < 1)
    return fail(Code::invalid, cat(here, " processes on ", machine.instance.name, ", which has ", cores, " cores"));
  for (int64_t core = mine * share; core < (mine + 1) * share; ++core) out.push_back(int(core));
  return out;
}

Result<std::string> settings_path() {
  if (const std::string config = getenv_or("XDG_CONFIG_HOME"); !config.empty()) return config + "/trine/settings.json";
  const std::string home = getenv_or("HOME");
  if (home.empty()) return fail(Code::io, "neither XDG_CONFIG_HOME nor HOME is set; nowhere to keep settings");
  return home + "/.config/trine/settings.json";
}

Result<std::string> saved_instance() {
  const auto path = settings_path();
  if (!path) return std::string();  // nothing can have been saved
  const auto text = read_file(*path);
  if (!text) {
    if (text.error().code == Code::not_found) return std::string();
    return Error(text.error());
  }
  const Json settings = TRY(parse_json(*text, *path));
  const Json* name = settings.find("instance");
  return name ? name->string() : std::string();
}

Result<void> save_instance(std::string_view name) {
  const std::string path = TRY(settings_path());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return fail(Code::io, cat("cannot create the folder of ", path, ": ", error.message()));
  Json settings = Json::object().set("version", 1);
  if (!name.empty()) settings.set("instance", name);
  return write_file(path, settings.text(2) + "\n");
}

}  // namespace trine::api
