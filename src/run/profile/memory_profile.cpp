// What SBUF, PSUM and HBM hold over time; see program_profile.h. On-chip tensors that share an address count once.
#include <algorithm>
#include <map>

#include "arch/row.h"
#include "run/profile/program_profile.h"

namespace trine::run {

namespace {

constexpr size_t kRowsMax = 4096;  // a memory
constexpr int64_t kPiece = 64;     // bytes of a partition that are in use or not

struct Range {
  sim::Fs first = -1, last = -1;
};

// When each tensor is touched first and last.
std::vector<Range> ranges_of(const arch::Program& program, const sim::Timing& timing) {
  std::vector<std::vector<Range>> insns;
  for (const arch::Stream& s : program.streams) insns.emplace_back(s.insns.size());
  for (const sim::Event& e : timing.events) {
    Range& r = insns[e.stream][e.insn];
    if (r.first < 0 || e.start < r.first) r.first = e.start;
    r.last = std::max(r.last, e.end);
  }
  std::vector<Range> out(program.tensors.size());
  for (size_t s = 0; s < program.streams.size(); ++s)
    for (size_t i = 0; i < insns[s].size(); ++i) {
      const Range& r = insns[s][i];
      if (r.first < 0) continue;
      const arch::Insn& insn = program.streams[s].insns[i];
      const size_t slots = arch::row_by_opcode(insn.opcode)->slots.size();
      for (size_t k = 0; k < slots; ++k) {
        const arch::Operand& o = program.operands[insn.operand + k];
        if (o.kind != arch::OperandKind::tile) continue;
        Range& t = out[o.tensor];
        if (t.first < 0 || r.first < t.first) t.first = r.first;
        t.last = std::max(t.last, r.last);
      }
    }
  return out;
}

// How many bytes are in use, as tensors come and go.
class InUse {
 public:
  InUse(arch::Space space, const arch::Chip& chip) : space_(space), partitions_(chip.partitions) {}

  void change(const arch::Tensor& t, int by) {
    if (space_ == arch::Space::hbm) {
      bytes_ += by * arch::tensor_bytes(t);
      return;
    }
    const int64_t rows = t.shape.empty() ? 1 : t.shape[0];
    const int64_t begin = t.address / kPiece, end = (t.address + arch::bytes_per_partition(t) + kPiece - 1) / kPiece;
    std::vector<int>& uses = uses_[t.core];
    if (int64_t(uses.size()) < end) uses.resize(size_t(end));
    for (int64_t i = begin; i < end; ++i) {
      int& n = uses[size_t(i)];
      const bool was = n > 0;
      n += by;
      if (was != (n > 0)) bytes_ += (n > 0 ? 1 : -1) * kPiece * std::min(partitions_, std::max<int64_t>(rows, 1));
    }
  }
  int64_t bytes() const { return std::max<int64_t>(0, bytes_); }

 private:
  arch::Space space_;
  int64_t partitions_, bytes_ = 0;
  std::map<uint8_t, std::vector<int>> uses_;  // by core, of each piece of a partition
};

void thin(std::vector<ProfileMemory>& rows) {
  if (rows.size() <= kRowsMax) return;
  const size_t group = (rows.size() + kRowsMax - 1) / kRowsMax;
  std::vector<ProfileMemory> out;
  for (size_t i = 0; i < rows.size(); i += group) {
    ProfileMemory most = rows[i];
    for (size_t k = i; k < std::min(i + group, rows.size()); ++k)
      if (rows[k].bytes > most.bytes) most.bytes = rows[k].bytes, most.label = rows[k].label;
    out.push_back(most);
  }
  rows = std::move(out);
}

}  // namespace

std::vector<ProfileMemory> memory_rows(const arch::Program& program, const arch::Chip& chip, const sim::Timing& timing,
                                       const Intern& intern) {
  const std::vector<Range> ranges = ranges_of(program, timing);
  std::vector<ProfileMemory> out;
  for (const arch::Space space : {arch::Space::hbm, arch::Space::sbuf, arch::Space::psum}) {
    struct Change {
      sim::Fs at;
      int by;
      size_t tensor;
    };
    std::vector<Change> changes;
    InUse in_use(space, chip);
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      const arch::Tensor& t = program.tensors[i];
      if (t.space != space || t.alias >= 0) continue;
      if (space == arch::Space::hbm && t.kind != arch::TensorKind::scratch) {
        in_use.change(t, 1);
      } else if (ranges[i].first >= 0) {
        changes.push_back({ranges[i].first, 1, i});
        changes.push_back({ranges[i].last, -1, i});
      }
    }
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return std::tie(a.at, a.by, a.tensor) < std::tie(b.at, b.by, b.tensor);
    });
    std::vector<ProfileMemory> rows = {{0, in_use.bytes(), uint32_t(space), intern("inputs, outputs and constants")}};
    if (space != arch::Space::hbm) rows[0].label = intern("");
    for (const Change& c : changes) {
      in_use.change(program.tensors[c.tensor], c.by);
      rows.push_back({c.at / 1000, in_use.bytes(), uint32_t(space), intern(program.tensors[c.tensor].name)});
    }
    thin(rows);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

}  // namespace trine::run
