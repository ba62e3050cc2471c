// trine ls: the chips of the virtual machine, with the columns and JSON keys of neuron-ls.
// Processes are those that publish counters (run/counters) of this machine; --show-all-procs lists this command too.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "api/publish.h"
#include "base/text.h"
#include "comm/topology.h"
#include "run/counters/read.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/draw_topology.h"

namespace trine::tools {

namespace {

using arch::Instance;

struct Device {
  int64_t number = 0, first_core = 0, cores = 0, memory_bytes = 0, numa_node = 0;
  std::vector<int64_t> connected;
  std::string bdf, affinity;
};

// The vCPUs of a NUMA node: its share of the first threads, then of their siblings.
std::string affinity(const Instance& i, int64_t node) {
  const int64_t vcpus = i.host.vcpus / i.hosts, nodes = i.host.numa_nodes;
  if (nodes == 1 || vcpus < 2 * nodes) return cat("0-", vcpus - 1);
  const int64_t half = vcpus / 2, first = node * half / nodes, last = (node + 1) * half / nodes - 1;
  return cat(first, "-", last, ",", half + first, "-", half + last);
}

// A made-up address in the documented style where the real one is not known: one bus per chip.
std::string made_up_bdf(int64_t index) {
  constexpr std::string_view hex = "0123456789abcdef";
  const int64_t bus = 0x10 + index;
  return cat(hex[static_cast<size_t>(bus / 16 % 16)], hex[static_cast<size_t>(bus % 16)], ":00.0");
}

std::vector<Device> list_devices(const Machine& machine) {
  const Instance& i = machine.instance;
  std::vector<Device> out;
  for (int64_t chip = 0; chip < i.chips; ++chip) {
    const auto index = static_cast<size_t>(chip % i.chips_per_host());
    Device d;
    d.number = chip;
    d.cores = machine.cores_per_chip();
    d.first_core = chip * d.cores;
    d.memory_bytes = machine.chip().hbm.bytes;
    d.numa_node =
        i.numa_node.empty() ? static_cast<int64_t>(index) * i.host.numa_nodes / i.chips_per_host() : i.numa_node[index];
    for (const comm::Neighbour& n : comm::neighbours(i, chip)) d.connected.push_back(n.chip);
    d.bdf = i.bdf.empty() ? made_up_bdf(static_cast<int64_t>(index)) : i.bdf[index];
    d.affinity = affinity(i, d.numa_node);
    out.push_back(std::move(d));
  }
  return out;
}

// "12, 3, 4, 1" as the driver orders them; many, as behind a switch, in ranges: "0-4, 6-63".
std::string connected_text(std::vector<int64_t> chips) {
  std::vector<std::string> parts;
  if (chips.size() <= 8) {
    for (const int64_t c : chips) parts.push_back(cat(c));
    return join(parts, ", ");
  }
  std::sort(chips.begin(), chips.end());
  for (size_t i = 0; i < chips.size();) {
    size_t end = i + 1;
    while (end < chips.size() && chips[end] == chips[end - 1] + 1) ++end;
    parts.push_back(end - i == 1 ? cat(chips[i]) : cat(chips[i], "-", chips[end - 1]));
    i = end;
  }
  return join(parts, ", ");
}

std::string core_ids(const Device& d) {
  return d.cores == 1 ? cat(d.first_core) : cat(d.first_core, "-", d.first_core + d.cores - 1);
}

// Processes that hold cores, as they publish it.
struct Process {
  int64_t pid = 0;
  std::string command, version;
  std::set<int64_t> chips;
};

std::vector<Process> list_processes(const Machine& machine) {
  std::map<int64_t, Process> found;
  const std::string folder = api::counters_folder();
  if (folder.empty()) return {};
  for (const run::ProcessCounters& page : run::PageReader(folder).read(0)) {
    if (page.cores.empty() || page.instance != machine.instance.name) continue;
    Process& p = found[page.pid];
    p.pid = page.pid, p.command = page.command, p.version = page.runtime_version;
    for (const auto& core : page.cores) p.chips.insert(core.chip);
  }
  std::vector<Process> out;
  for (auto& [pid, p] : found) out.push_back(std::move(p));
  return out;
}

struct Column {
  std::string_view above, below;  // the two lines of the heading
  std::vector<std::string> cells;
};

std::string centred(std::string_view text, size_t width) {
  const size_t left = (width - text.size()) / 2;
  return std::string(left, ' ') + std::string(text) + std::string(width - text.size() - left, ' ');
}

// neuron-ls's grid: headings centred, cells left. A row with several lines (processes) is ruled off.
std::string grid(const std::vector<Column>& list, bool rule_rows) {
  // A row whose first cell is empty goes on with the one before.
  std::vector<size_t> width;
  std::string rule = "+";
  for (const Column& c : list) {
    size_t w = std::max(c.above.size(), c.below.size());
    for (const auto& cell : c.cells) w = std::max(w, cell.size());
    width.push_back(w);
    rule += std::string(w + 2, '-') + "+";
  }
  std::string above = "|", below = "|", rows;
  for (size_t k = 0; k < list.size(); ++k) {
    above += cat(" ", centred(list[k].above, width[k]), " |");
    below += cat(" ", centred(list[k].below, width[k]), " |");
  }
  for (size_t r = 0; r < list[0].cells.size(); ++r) {
    rows += "|";
    for (size_t k = 0; k < list.size(); ++k) {
      const std::string& cell = list[k].cells[r];
      rows += cat(" ", cell, std::string(width[k] - cell.size(), ' '), " |");
    }
    const bool goes_on = r + 1 < list[0].cells.size() && list[0].cells[r + 1].empty();
    rows += rule_rows && !goes_on ? cat("\n", rule, "\n") : "\n";
  }
  return cat(rule, "\n", above, "\n", below, "\n", rule, "\n", rows, rule_rows ? "" : cat(rule, "\n"));
}

enum class View { plain, processes, topology };

std::string table(const std::vector<Device>& devices, View view, const std::vector<Process>& processes) {
  Column device{"NEURON", "DEVICE", {}}, cores{"NEURON", "CORES", {}}, ids{"NEURON", "CORE IDS", {}},
      memory{"NEURON", "MEMORY", {}}, connected{"CONNECTED", "DEVICES", {}}, bdf{"PCI", "BDF", {}},
      cpus{"CPU", "AFFINITY", {}}, numa{"NUMA", "NODE", {}}, pid{"PID", "", {}}, command{"COMMAND", "", {}},
      version{"RUNTIME", "VERSION", {}};
  bool linked = false, is_any = false;
  for (const Device& d : devices) {
    linked = linked || !d.connected.empty();
    device.cells.push_back(cat(d.number));
    cores.cells.push_back(cat(d.cores));
    ids.cells.push_back(core_ids(d));
    memory.cells.push_back(cat(d.memory_bytes >> 30, " GB"));
    connected.cells.push_back(connected_text(d.connected));
    bdf.cells.push_back(view == View::plain ? cat("0000:", d.bdf) : d.bdf);
    cpus.cells.push_back(d.affinity);
    numa.cells.push_back(cat(d.numa_node));
    size_t held = 0;
    for (const Process& p : processes) {
      if (!p.chips.contains(d.number)) continue;
      if (held++ > 0)
        for (Column* c : {&device, &cores, &ids, &memory, &connected, &bdf, &cpus, &numa}) c->cells.emplace_back();
      pid.cells.push_back(cat(p.pid));
      command.cells.push_back(p.command);
      version.cells.push_back(p.version);
    }
    if (held == 0)
      for (Column* c : {&pid, &command, &version}) c->cells.emplace_back();
    is_any = is_any || held > 0;
  }
  std::vector<Column> list = {device, cores};
  if (view == View::plain) list.push_back(ids);
  list.push_back(memory);
  if (linked) list.push_back(connected);
  list.push_back(bdf);
  if (view == View::plain) list.insert(list.end(), {cpus, numa});
  if (view == View::processes) list.insert(list.end(), {pid, command, version});
  return grid(list, view == View::processes && is_any);
}

Json device_json(const Device& d, const Machine& machine, const std::vector<Process>& processes) {
  Json connected = Json::array(), ids = Json::array(), held = Json::array();
  for (const Process& p : processes)
    if (p.chips.contains(d.number))
      held.push(Json::object().set("pid", p.pid).set("command", p.command).set("neuron_runtime_version", p.version));
  for (const int64_t c : d.connected) connected.push(c);
  for (int64_t k = 0; k < d.cores; ++k) ids.push(d.first_core + k);
  return Json::object()
      .set("neuron_device", d.number)
      .set("bdf", d.bdf)
      .set("cpu_affinity", d.affinity)
      .set("numa_node", cat(d.numa_node))
      .set("connected_to", std::move(connected))
      .set("nc_count", d.cores)
      .set("logical_neuroncore_config", machine.lnc)
      .set("memory_size", d.memory_bytes)
      .set("neuroncore_ids", std::move(ids))
      .set("neuron_processes", std::move(held));
}

std::string heading(const Machine& machine) {
  std::string out = cat("instance-type: ", machine.instance.name, " (virtual)\ninstance-id: i-virtual\n");
  if (machine.chip().lnc_max > 1) out += cat("logical-neuroncore-config: ", machine.lnc, "\n");
  if (machine.instance.hosts > 1) out += cat("hosts: ", machine.instance.hosts, "\n");
  return out;
}

Result<Exit> run(const Args& args) {
  const Machine machine = TRY(choose_machine(args));
  const std::vector<Device> devices = list_devices(machine);
  std::vector<Process> processes = list_processes(machine);
  if (args.has("--json-output") || args.has("--json")) {
    Json list = Json::array();
    for (const Device& d : devices) list.push(device_json(d, machine, processes));
    if (args.has("--json-output")) {
      print(list.text(4) + "\n");
      return Exit::ok;
    }
    print(report("ls")
              .set("instance", machine.instance.name)
              .set("chosen_by", machine.chosen_by)
              .set("chip", machine.chip().name)
              .set("hosts", machine.instance.hosts)
              .set("devices", std::move(list))
              .text(2) +
          "\n");
    return Exit::ok;
  }
  const bool all = args.has("--show-all-procs"), topology = args.has("--topology");
  const View view = topology ? View::topology : all || args.has("--wide") ? View::processes : View::plain;
  if (all && !topology) {
    Process self{.pid = ::getpid(), .command = "trine ls --show-all-procs", .version = "NA", .chips = {}};
    for (const Device& d : devices) self.chips.insert(d.number);
    processes.push_back(std::move(self));
  }
  print(heading(machine) + table(devices, view, processes));
  if (topology) print(cat("\n\nNeuron Device Topology\n", draw_topology(machine.instance)));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    {"--wide", "-w", "", "the table with processes"},
    {"--show-all-procs", "-a", "", "with tools among the processes, such as this one"},
    {"--topology", "-t", "", "draw how the chips are wired"},
    {"--json-output", "-j", "", "a bare JSON array, with the keys of neuron-ls"},
    kJson,
    kInstance,
    kLnc,
    kChipFile,
};

}  // namespace

extern const Command command_ls{
    .name = "ls",
    .summary = "list the chips of the virtual machine, as neuron-ls does",
    .alias = "neuron-ls",
    .examples = "trine ls --instance trn2.48xlarge --topology",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
