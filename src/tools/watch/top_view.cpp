// Lines of the screen; see top_view.h.
#include "tools/watch/top_view.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "run/report/cost.h"
#include "tools/watch/terminal.h"

namespace trine::tools {

namespace {

using run::CoreSample;
using run::ProcessSample;

std::string padded(std::string text, int width) {
  const int has = visible_width(text);
  return has < width ? text + std::string(size_t(width - has), ' ') : cut(text, width);
}
std::string right(const std::string& text, int width) {
  const int has = visible_width(text);
  return has < width ? std::string(size_t(width - has), ' ') + text : text;
}

std::string bytes_text(int64_t bytes) {  // as neuron-top: binary units
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double v = double(bytes);
  size_t u = 0;
  while (v >= 1024 && u + 1 < std::size(kUnits)) v /= 1024, ++u;
  return cat(fixed(v, u ? 1 : 0), kUnits[u]);
}

std::string bar(double share, int width, std::string_view text) {  // [|||||   34.00%]
  const int inner = std::max(width - 2, 4);
  std::string out(size_t(inner), ' ');
  const int full = int(std::lround(std::clamp(share, 0.0, 1.0) * inner));
  for (int i = 0; i < full; ++i) out[size_t(i)] = '|';
  if (int(text.size()) < inner) out.replace(size_t(inner) - text.size(), text.size(), text);
  return cat("[", out, "]");
}

struct CoreRow {
  run::Spent spent = {};
  int64_t chip = 0, on_chip = 0;
  bool lost = false;
};

}  // namespace

TopView::TopView(const run::Sample& sample, const run::Monitor& monitor, TopState& state)
    : sample_(sample), monitor_(monitor), state_(state) {
  const bool is_there = std::any_of(sample.processes.begin(), sample.processes.end(),
                                    [&](const ProcessSample& p) { return p.pid == state.pid; });
  if (!is_there) state_.pid = 0;
  build_tree();
}

std::vector<const ProcessSample*> TopView::chosen() const {
  std::vector<const ProcessSample*> out;
  for (const ProcessSample& p : sample_.processes)
    if (!state_.pid || p.pid == state_.pid) out.push_back(&p);
  return out;
}

void TopView::build_tree() {
  std::map<int64_t, std::map<int64_t, std::pair<int64_t, std::vector<Node>>>> by_chip;  // chip, core: bytes, models
  for (const ProcessSample* p : chosen()) {
    for (const CoreSample& c : p->cores) {
      auto& [bytes, models] = by_chip[c.now.chip][c.now.id];
      for (const int64_t b : c.now.memory) bytes += b;
      bytes += c.code_bytes;
    }
    for (const ProcessSample::Model& m : p->models)
      for (auto& [chip, cores] : by_chip)
        if (const auto found = cores.find(m.core); found != cores.end()) {
          Node n{.label = cat(m.name, m.ns > 0 ? cat("  ", with_unit_ns(m.ns), " × ", with_commas(int64_t(m.runs)))
                                               : cat("  ", with_commas(int64_t(m.runs)), " runs"))};
          n.depth = 2, n.device = m.constant_bytes + m.arena_bytes + m.code_bytes;
          found->second.second.push_back(std::move(n));
        }
  }
  for (auto& [chip, cores] : by_chip) {
    Node device{.path = cat(chip), .label = cat("ND ", chip)};
    device.has_children = true;
    for (auto& [id, core] : cores) device.device += core.first;
    nodes_.push_back(device);
    for (auto& [id, core] : cores) {
      Node n{.path = cat(chip, "/", id), .label = cat("NC", id)};
      n.depth = 1, n.device = core.first, n.has_children = !core.second.empty();
      nodes_.push_back(n);
      for (size_t i = 0; i < core.second.size(); ++i) {
        core.second[i].path = cat(n.path, "/", i);
        nodes_.push_back(core.second[i]);
      }
    }
  }
  size_t visible = 0;
  for (const Node& n : nodes_) visible += is_visible(n);
  state_.cursor = std::min(state_.cursor, visible ? visible - 1 : 0);
}

bool TopView::is_visible(const Node& node) const {
  if (node.depth == 0) return true;
  const std::string chip = node.path.substr(0, node.path.find('/'));
  if (node.depth == 1) return state_.open.contains(chip);
  return state_.open.contains(chip) && state_.open.contains(node.path.substr(0, node.path.rfind('/')));
}

void TopView::key(int key) {
  std::vector<const Node*> visible;
  for (const Node& n : nodes_)
    if (is_visible(n)) visible.push_back(&n);
  const Node* const here = state_.cursor < visible.size() ? visible[state_.cursor] : nullptr;
  const auto move_tab = [&](int by) {
    std::vector<int64_t> pids = {0};
    for (const ProcessSample& p : sample_.processes) pids.push_back(p.pid);
    const auto at = std::find(pids.begin(), pids.end(), state_.pid) - pids.begin();
    state_.pid = pids[size_t(at + by + int64_t(pids.size())) % pids.size()];
  };
  if (key == 'f' || key == 'F') state_.shows_flops = !state_.shows_flops;
  if (key == '?' || key == 'h') state_.shows_help = !state_.shows_help;
  if (key == 'a') move_tab(-1);
  if (key == 'd') move_tab(1);
  if (key == '1') state_.pid = 0;
  if (key >= '2' && key <= '9' && size_t(key - '2') < sample_.processes.size())
    state_.pid = sample_.processes[size_t(key - '2')].pid;
  if (key == int(Key::up) && state_.cursor > 0) --state_.cursor;
  if (key == int(Key::down) && state_.cursor + 1 < visible.size()) ++state_.cursor;
  if (key == int(Key::right) && here) state_.open.insert(here->path);
  if (key == int(Key::left) && here) state_.open.erase(here->path);
  if (key == 'x') {
    const bool is_any = !state_.open.empty();
    state_.open.clear();
    for (const Node& n : nodes_)
      if (!is_any && n.has_children) state_.open.insert(n.path);
  }
}

std::string TopView::heading(std::string_view text, int columns) const {
  const std::string line = padded(cat(" ", text), columns);
  return state_.has_colour ? cat("\x1b[7m", line, "\x1b[0m") : line;
}

std::string TopView::title(int columns) const {
  const arch::Instance* const machine = monitor_.machine().instance;
  double usd = 0, hour = 0, watts = 0;
  for (const ProcessSample* p : chosen()) {
    usd += p->usd, hour += p->usd_per_hour;
    for (const CoreSample& c : p->cores) watts += c.watts;
  }
  const std::string left = cat("neuron-top (trine)  i-virtual  ", machine ? machine->name : "no machine");
  const std::string money = cat(run::dollars(usd), " so far, ", run::dollars(hour), "/h  ", fixed(watts, 0), " W");
  const int gap = columns - visible_width(left) - visible_width(money);
  return gap > 1 ? cat(left, std::string(size_t(gap), ' '), money) : left;
}

// Every core of the machine that somebody uses, several to a line.
std::vector<std::string> TopView::cores(int columns, size_t room) const {
  std::map<int64_t, CoreRow> rows;
  for (const ProcessSample* p : chosen())
    for (const CoreSample& c : p->cores) {
      CoreRow& row = rows[c.now.id];
      row.spent += c.period, row.chip = c.now.chip, row.on_chip = c.now.on_chip, row.lost = row.lost || c.now.lost;
    }
  if (rows.empty()) return {"  no process uses a core"};
  const double peak = monitor_.machine().instance ? monitor_.machine().instance->chip->tensor_flops_per_ns() * 1e9 *
                                                        double(monitor_.machine().lnc)
                                                  : 0;
  const int each = std::clamp(columns / 2 - 1, 20, 44), per_line = std::max(columns / (each + 1), 1);
  std::vector<std::string> out;
  std::string line;
  size_t shown = 0;
  for (const auto& [id, row] : rows) {
    if (shown % size_t(per_line) == 0) {
      if (!line.empty()) out.push_back(std::move(line));
      line = " ";
      if (out.size() + 1 >= room && rows.size() - shown > size_t(per_line)) {
        out.push_back(cat("  … ", rows.size() - shown, " more cores"));
        return out;
      }
    }
    const std::string name = right(cat("NC", id), 6);
    const double flops = row.spent.flops_per_s(), share = row.spent.utilisation();
    const std::string text = row.lost             ? "LOST"
                             : state_.shows_flops ? cat(fixed(flops * 1e-12, 2), "TFLOPS")
                                                  : cat(fixed(100 * share, 2), "%");
    std::string cell = cat(name, " ", bar(state_.shows_flops ? (peak > 0 ? flops / peak : 0) : share, each - 8, text));
    if (state_.has_colour && share > 0.001) cell = cat("\x1b[32m", cell, "\x1b[0m");
    line += padded(std::move(cell), each) + " ";
    ++shown;
  }
  out.push_back(std::move(line));
  return out;
}

std::vector<std::string> TopView::engines(int columns) const {
  run::Spent all;
  for (const ProcessSample* p : chosen()) all += p->period();
  std::string line = "  ";
  for (size_t u = 0; u < run::kUnits; ++u)
    line += cat(run::kUnitNames[u], " ", fixed(100 * all.share(u), 1), "%", u + 1 < run::kUnits ? "   " : "");
  if (state_.pending > 0) line += cat("   timing ", state_.pending, " programs");
  if (all.timed_share() < 0.999 && all.runs > 0)
    line += cat("   ", fixed(100 * all.timed_share(), 0), "% of runs timed");
  return {cut(line, columns)};
}

std::vector<std::string> TopView::cpu(int columns) const {
  const auto host = run::cpu_percent(monitor_.host_before().all, monitor_.host().all);
  double user = 0, system = 0;
  for (const ProcessSample* p : chosen()) user += p->cpu_user, system += p->cpu_system;
  const int width = std::clamp(columns / 2 - 16, 12, 40);
  const auto one = [&](std::string_view name, double u, double s) {
    return cat(padded(cat("  ", name), 15), bar((u + s) / 100, width, cat(fixed(u, 1), "%,", fixed(s, 1), "%")));
  };
  const std::string a = one("System vCPU", host[0] + host[1], host[2] + host[4] + host[5] + host[6]);
  const std::string b = one("Runtime vCPU", user, system);
  if (visible_width(a) + visible_width(b) + 1 <= columns) return {cat(a, " ", b)};
  return {a, b};
}

std::vector<std::string> TopView::memory() const {
  int64_t application = 0, tensors = 0, constants = 0, code = 0, scratch = 0;
  for (const ProcessSample* p : chosen()) {
    int64_t device = 0;
    for (const CoreSample& c : p->cores) {
      const auto& m = c.now.memory;
      tensors += m[0] + m[1], scratch += m[2], constants += m[3], code += c.code_bytes;
      device += m[0] + m[1] + m[2] + m[3];
    }
    application += std::max<int64_t>(p->resident_bytes - device, 0);
  }
  std::vector<std::vector<std::string>> rows = {
      {"  Host", "Total", "Tensors", "Constants", "DMA Buffers", "App. Memory", ""},
      {"", bytes_text(application), bytes_text(0), bytes_text(0), bytes_text(0), bytes_text(application), ""},
      {"  Device", "Total", "Tensors", "Constants", "Model Code", "Runtime Memory", "Model Scratchpad"},
      {"", bytes_text(tensors + constants + code + scratch), bytes_text(tensors), bytes_text(constants),
       bytes_text(code), bytes_text(0), bytes_text(scratch)}};
  std::vector<std::string> out;
  const std::string text = columns(rows, "0000000", "   ");
  for (const auto& line : split(text, '\n'))
    if (!line.empty()) out.emplace_back(line);
  return out;
}

std::vector<std::string> TopView::tree(size_t room) {
  std::vector<std::string> all;
  std::vector<const Node*> visible;
  for (const Node& n : nodes_)
    if (is_visible(n)) visible.push_back(&n);
  const size_t first = state_.cursor >= room && room > 0 ? state_.cursor - room + 1 : 0;
  for (size_t i = first; i < visible.size() && all.size() < room; ++i) {
    const Node& n = *visible[i];
    const std::string mark = n.has_children ? (state_.open.contains(n.path) ? "[-] " : "[+] ") : "    ";
    std::string line = cat(i == state_.cursor ? " >" : "  ", std::string(size_t(n.depth) * 3, ' '), mark, n.label);
    line = cat(padded(std::move(line), 52), right(bytes_text(n.host), 12), right(bytes_text(n.device), 16));
    all.push_back(state_.has_colour && i == state_.cursor ? cat("\x1b[1m", line, "\x1b[0m") : line);
  }
  return all;
}

std::string TopView::tabs() const {
  std::string out = "Neuron Apps ";
  const auto tab = [&](size_t number, const std::string& name, bool is_here) {
    const std::string text = cat("[", number, "]:", is_here ? cat(">", name, "<") : name);
    return is_here && state_.has_colour ? cat(" \x1b[32m", text, "\x1b[0m") : cat(" ", text);
  };
  out += tab(1, "all", state_.pid == 0);
  for (size_t i = 0; i < sample_.processes.size(); ++i)
    out += tab(i + 2, sample_.processes[i].tag, sample_.processes[i].pid == state_.pid);
  return out + "   q quit  ? keys";
}

std::vector<std::string> TopView::lines(int rows, int columns) {
  if (state_.shows_help)
    return {"neuron-top: keys",
            "",
            "  F        utilisation or TFLOPS",
            "  a, d     tab to the left, to the right; 1 to 9 choose one",
            "  arrows   up and down move in the tree, right unfolds, left folds",
            "  x        fold or unfold all",
            "  q        quit",
            "",
            "Utilisation is on the chip's clock: programs take their time on the chip, the host's own",
            "work between them what it takes here. Dollars are of the cores in use on that clock."};
  const arch::Instance* const machine = monitor_.machine().instance;
  const std::string version =
      machine ? cat("v", machine->chip->generation, monitor_.machine().lnc > 1 ? "d" : "") : std::string();
  std::vector<std::string> out = {cut(title(columns), columns)};
  const auto add = [&](std::string_view name, std::vector<std::string> body) {
    out.push_back(heading(name, columns));
    for (std::string& line : body) out.push_back(cut(line, columns));
  };
  const size_t total = size_t(std::max(rows, 2)), room = std::max<size_t>(total / 3, 2);
  add(cat("NeuronCore ", version, " Utilization", state_.shows_flops ? " (TFLOPS)" : ""), cores(columns, room));
  add("Engines", engines(columns));
  add("VCPU Utilization", cpu(columns));
  add("Memory Usage Summary", memory());
  const size_t used = out.size() + 2;  // its heading, and the tabs
  add(cat(padded("Memory Usage Details (Model ID)", 51), right("Host Memory", 12), right("Device Memory", 16)),
      tree(total > used ? total - used : 0));
  out.resize(total - 1);
  out.push_back(cut(tabs(), columns));
  return out;
}

}  // namespace trine::tools
