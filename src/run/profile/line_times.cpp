// Sums by source line; see line_times.h.
#include "run/profile/line_times.h"

#include <algorithm>

#include "arch/row.h"

namespace trine::run {

LineTimes::LineTimes(const arch::Program& program)
    : program_(program), rows_(program.lines.size() + 1), ranges_(program.tensors.size()) {}

void LineTimes::on_event(const sim::Event& e) {
  if (e.doing == sim::Doing::issue) return;
  const arch::Insn& insn = program_.streams[e.stream].insns[e.insn];
  Row& row = rows_[insn.line];
  row.end = std::max(row.end, e.end);
  row.count += e.doing == sim::Doing::execute;
  row.busy[std::min(size_t(e.part), kUnits - 1)] += e.end - e.start;
  if (e.part != sim::Part::dma) return;
  const size_t slots = arch::row_by_opcode(insn.opcode)->slots.size();
  for (size_t s = 0; s < slots; ++s) {
    const arch::Operand& o = program_.operands[insn.operand + s];
    if (o.kind != arch::OperandKind::tile) continue;
    const arch::Tensor& t = program_.tensors[o.tensor];
    if (t.space != arch::Space::hbm || t.kind != arch::TensorKind::scratch) continue;
    LiveRange& range = ranges_[o.tensor];
    if (range.first < 0 || e.start < range.first) range.first = e.start;
    range.last = std::max(range.last, e.end);
  }
}

int64_t LineTimes::scratch_peak() const {
  std::vector<std::pair<sim::Fs, int64_t>> steps;
  for (size_t t = 0; t < ranges_.size(); ++t) {
    if (ranges_[t].first < 0) continue;
    const int64_t bytes = arch::tensor_bytes(program_.tensors[t]);
    steps.push_back({ranges_[t].first, bytes});
    steps.push_back({ranges_[t].last + 1, -bytes});
  }
  std::sort(steps.begin(), steps.end());
  int64_t now = 0, most = 0;
  for (const auto& [at, bytes] : steps) most = std::max(most, now += bytes);
  return most;
}

Json LineTimes::json() const {
  Json out = Json::array();
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.end == 0) continue;
    Json busy = Json::object();
    for (size_t u = 0; u < kUnits; ++u)
      if (row.busy[u] > 0) busy.set(sim::name(sim::Part(u)), sim::to_ns(row.busy[u]));
    Json line = Json::object();
    line.set("where", i ? program_.strings[program_.lines[i - 1].file] : std::string());
    line.set("line", int64_t(i ? program_.lines[i - 1].line : 0));
    line.set("end_ns", sim::to_ns(row.end)).set("count", row.count).set("busy_ns", std::move(busy));
    out.push(std::move(line));
  }
  return out;
}

}  // namespace trine::run
