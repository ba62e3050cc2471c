// What loads mean to the streams that go by them; see assume.h.
#include "sim/core/assume.h"

#include <algorithm>
#include <map>

#include "arch/enums.h"
#include "arch/sequencer.h"
#include "sim/core/timer.h"

namespace trine::sim {

namespace {

constexpr int kTriesMax = 64;                    // programs timed to find the longest paths
constexpr int64_t kStepsMax = int64_t{1} << 28;  // of a program whose ending was assumed

using Registers = uint64_t;  // a set
static_assert(arch::kRegisterCount <= 64);
Registers of(const arch::Operand& o) { return o.kind == arch::OperandKind::reg ? Registers{1} << o.reg : 0; }

// The instructions of one stream as its registers see them.
class Look {
 public:
  Look(const arch::Program& program, const arch::Stream& stream) : program_(program), insns_(stream.insns) {}

  const arch::Operand& operand(uint32_t at, size_t slot) const { return program_.operands[insns_[at].operand + slot]; }
  std::vector<uint32_t> loads() const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < insns_.size(); ++i)
      if (insns_[i].opcode == arch::kOpRegisterLoad) out.push_back(i);
    return out;
  }
  bool goes_by(uint32_t at, Registers set) const {
    const uint16_t op = insns_[at].opcode;
    if (op == arch::kOpLoop) return of(operand(at, 0)) & set;
    return op == arch::kOpBranch && ((of(operand(at, 0)) | of(operand(at, 1))) & set);
  }
  // Does what was loaded, or what is made of it, decide where the stream goes?
  bool steers(uint32_t load) const {
    Registers set = of(operand(load, 0));
    for (uint32_t i = load + 1; i < insns_.size() && set; ++i) {
      if (goes_by(i, set)) return true;
      set = after(i, set);
    }
    return ends_loop(load);
  }
  // Numbers that are told apart: the branch takes the least of what was loaded and its last path.
  int64_t paths(uint32_t load) const {
    const Registers loaded = of(operand(load, 0));
    for (uint32_t i = load + 1; i < insns_.size(); ++i) {
      if (goes_by(i, loaded) || insns_[i].opcode == arch::kOpRegisterLoad) return 1;
      if (insns_[i].opcode != arch::kOpRegisterAlu || !(of(operand(i, 1)) & loaded)) continue;
      const bool least = static_cast<arch::Alu>(program_.attrs[insns_[i].attr]) == arch::Alu::min;
      const arch::Operand& last = operand(i, 2);
      return least && last.kind == arch::OperandKind::immediate ? static_cast<int64_t>(last.immediate) + 1 : 1;
    }
    return 1;
  }
  // Is it loaded inside a loop that a branch before it leaves by the same register?
  bool ends_loop(uint32_t load) const {
    const Registers loaded = of(operand(load, 0));
    for (uint32_t i = load + 1; i < insns_.size(); ++i) {
      if (insns_[i].opcode != arch::kOpJump) continue;
      const auto top = static_cast<uint32_t>(program_.attrs[insns_[i].attr]);
      if (top <= load && insns_[top].opcode == arch::kOpBranch && goes_by(top, loaded)) return true;
    }
    return false;
  }

 private:
  Registers after(uint32_t at, Registers set) const {
    const uint16_t op = insns_[at].opcode;
    if (op != arch::kOpRegisterMove && op != arch::kOpRegisterAlu && op != arch::kOpRegisterLoad) return set;
    Registers from = op == arch::kOpRegisterLoad ? 0 : of(operand(at, 1));
    if (op == arch::kOpRegisterAlu) from |= of(operand(at, 2));
    const Registers to = of(operand(at, 0));
    return from & set ? set | to : set & ~to;
  }

  const arch::Program& program_;
  const std::vector<arch::Insn>& insns_;
};

}  // namespace

Assumptions::Assumptions(const arch::Program& program) : program_(program) {
  size_t first = program.streams.size();
  std::vector<size_t> counts;
  for (size_t s = 0; s < program.streams.size(); ++s) {
    const Look look(program, program.streams[s]);
    bool steers = false;
    for (uint32_t i = 0; i < program.streams[s].insns.size(); ++i) steers = steers || look.goes_by(i, ~Registers{0});
    steers_.push_back(steers);
    counts.push_back(look.loads().size());
    if (steers && counts[s]) first = std::min(first, s);
  }
  if (first == program.streams.size()) return;
  for (size_t s = 0; s < counts.size(); ++s)
    if (steers_[s] && counts[s] && counts[s] != counts[first]) return;
  look(first);
}

void Assumptions::look(size_t stream) {
  stream_ = static_cast<uint32_t>(stream);
  const Look look(program_, program_.streams[stream]);
  std::map<std::pair<uint32_t, int64_t>, size_t> addresses;
  for (uint32_t load : look.loads()) {
    const arch::Operand& from = look.operand(load, 1);
    const auto [found, fresh] = addresses.try_emplace({from.tensor, from.offset}, data_.size());
    if (fresh) data_.push_back({.insn = load});
    Datum& datum = data_[found->second];
    const bool ends = look.ends_loop(load);
    datum.paths = std::max(datum.paths, look.paths(load));
    datum.steers = datum.steers || (look.steers(load) && !ends);
    sites_.push_back({found->second, ends ? 0u : 1u});
  }
}

Loads Assumptions::loads() const {
  std::vector<uint32_t> each;
  for (const Site& site : sites_) each.push_back(data_[site.datum].paths > 1 ? data_[site.datum].value : site.first);
  Loads out(program_.streams.size());
  for (size_t s = 0; s < out.size(); ++s)
    if (steers_[s]) out[s] = each;
  return out;
}

Result<Timing> Assumptions::time(const arch::Chip& chip, const TimeOptions& options) {
  TimeOptions quiet = options;
  quiet.events_max = 0;
  quiet.observer = nullptr;
  quiet.steps_max = std::min(options.steps_max, kStepsMax);
  Fs longest = -1;
  int tries = 0;
  for (Datum& datum : data_)
    for (int64_t path = 0; path < datum.paths && datum.paths > 1 && tries < kTriesMax; ++path, ++tries) {
      const uint32_t before = datum.value;
      datum.value = static_cast<uint32_t>(path);
      quiet.assumed = loads();
      const Fs end = TRY(Timer(program_, chip, quiet).run()).end;
      if (end > longest)
        longest = end;
      else
        datum.value = before;
    }
  TimeOptions loud = options;
  loud.steps_max = quiet.steps_max;
  loud.assumed = loads();
  Timing out = TRY(Timer(program_, chip, loud).run());
  for (const Datum& datum : data_)
    if (datum.steers || datum.paths > 1) out.assumed.push_back({stream_, datum.insn, datum.paths, datum.value});
  return out;
}

}  // namespace trine::sim
