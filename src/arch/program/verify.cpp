// verify(): walks every stream with its loops and asks each rule; see verify.h. Memory sizes are checked here, what an
// operand may touch in verify_access.cpp, and what is special to an instruction in its row.
#include "arch/program/verify.h"

#include <algorithm>

#include "arch/sequencer.h"
#include "base/text.h"

namespace trine::arch {

std::string where_of(const Program& p, int stream, uint32_t pc) {
  if (stream < 0) return p.name;
  const Stream& s = p.streams[static_cast<size_t>(stream)];
  const uint32_t line = s.insns[pc].line;
  if (line && line <= p.lines.size()) {
    const SourceLine& at = p.lines[line - 1];
    return cat(p.strings[at.file], ":", at.line);
  }
  return cat(p.name.empty() ? "" : p.name + ", ", s.core ? cat(s.core, ".") : std::string(), name(s.engine),
             " stream, instruction ", pc);
}

void Findings::add(Code code, std::string message) {
  ++count_;
  if (full()) return;
  all_.push_back({fail(code, std::move(message), where_of(program_, stream_, pc_)), stream_, pc_});
}

Result<void> first_error(const std::vector<Finding>& findings) {
  if (findings.empty()) return {};
  return findings[0].error;
}

namespace {

std::string chips_with(Feature f) {
  std::vector<std::string> names;
  for (const Chip& chip : all_chips())
    if (chip.has(f)) names.push_back(chip.name);
  return names.empty() ? "no chip has it" : cat(join(names, ", "), names.size() == 1 ? " has it" : " have it");
}

void check_feature(const Call& call, Findings& found) {
  const Feature needs = call.info.row->needs;
  if (!call.chip.has(needs))
    found.add(Code::unsupported, cat(call.info.row->name, " needs `", feature_name(needs), "`, which ", call.chip.name,
                                     " lacks; ", chips_with(needs)));
}

void check_numbers(const Call& call, Findings& found) {
  const Program& p = call.program;
  const auto semaphore = [&](uint16_t s) {
    if (s >= call.chip.semaphore.count)
      found.add(Code::out_of_range, cat(call.info.row->name, ": semaphore s", s, " is not there; ", call.chip.name,
                                        " has s0 to s", call.chip.semaphore.count - 1));
  };
  for (size_t i = 0; i < call.insn.waits; ++i) semaphore(p.waits[call.insn.wait + i].semaphore);
  for (size_t i = 0; i < call.insn.updates; ++i) semaphore(p.updates[call.insn.update + i].semaphore);
  if (call.info.row->unit == Unit::queue && call.info.attr("queue") >= 0) {
    const int64_t queue = call.attr("queue");
    if (queue < 0 || queue >= call.chip.dma.rings)
      found.add(Code::out_of_range, cat(call.info.row->name, ": attribute `queue` is ", queue, "; ", call.chip.name,
                                        " has queues 0 to ", call.chip.dma.rings - 1));
  }
}

void check_insn(const Call& call, const LoopNest& loops, Findings& found) {
  const size_t before = found.count();
  check_feature(call, found);
  check_numbers(call, found);
  check_access(call, loops, found);
  if (found.count() != before || !call.info.row->check) return;
  if (auto result = call.info.row->check(call.chip, call); !result)
    found.add(result.error().code, cat(call.info.row->name, ": ", result.error().message));
}

struct Extent {
  int64_t end = 0;  // bytes, per partition on chip
  uint32_t tensor = 0;
};

// One memory of one core, or the HBM: what ends highest must fit.
void check_size(const Program& p, std::vector<Extent> tensors, std::string_view memory, int64_t limit,
                std::string_view unit, Findings& found) {
  std::stable_sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.end > b.end; });
  if (tensors.empty() || tensors[0].end <= limit) return;
  const auto size = [&](const Extent& e) {
    const Tensor& t = p.tensors[e.tensor];
    return t.space == Space::hbm ? tensor_bytes(t) : bytes_per_partition(t);
  };
  const int64_t over = tensors[0].end - limit;
  std::stable_sort(tensors.begin(), tensors.end(), [&](auto& a, auto& b) { return size(a) > size(b); });
  std::vector<std::string> largest;
  for (size_t i = 0; i < std::min<size_t>(3, tensors.size()); ++i)
    largest.push_back(cat(p.tensors[tensors[i].tensor].name, " ", size(tensors[i])));
  found.add(Code::out_of_memory,
            cat(memory, " is ", over, " bytes", unit, " over: the program reaches ", limit + over, " of ", limit,
                "; largest tensors (bytes", unit, "): ", join(largest, ", "), "; tile them or reuse addresses"));
}

// HBM tensors have memory of their own each, unless one is the other's alias.
void check_overlap(const Program& p, std::vector<uint32_t> tensors, Findings& found) {
  const auto address = [&](uint32_t i) { return p.tensors[i].address; };
  std::stable_sort(tensors.begin(), tensors.end(), [&](uint32_t a, uint32_t b) { return address(a) < address(b); });
  int64_t end = 0;
  uint32_t last = 0;
  for (uint32_t i : tensors) {
    const Tensor& t = p.tensors[i];
    if (t.alias >= 0 || tensor_bytes(t) == 0) continue;
    if (t.address < end && !found.full())
      found.add(Code::invalid, cat("tensors `", p.tensors[last].name, "` and `", t.name,
                                   "` overlap in HBM; move one, or make an output the input's alias"));
    if (t.address + tensor_bytes(t) > end) end = t.address + tensor_bytes(t), last = i;
  }
}

}  // namespace

void check_memory(const Program& p, const Chip& chip, Findings& found) {
  std::vector<Extent> hbm;
  std::vector<uint32_t> hbm_tensors;
  std::vector<std::vector<Extent>> sbuf(p.cores), psum(p.cores);
  for (uint32_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& t = p.tensors[i];
    if (t.space == Space::hbm) {
      hbm.push_back({t.address + tensor_bytes(t), i});
      hbm_tensors.push_back(i);
      continue;
    }
    (t.space == Space::sbuf ? sbuf : psum)[t.core].push_back({t.address + bytes_per_partition(t), i});
    if (t.partition + t.shape[0] > chip.partitions)
      found.add(Code::out_of_range,
                cat("tensor `", t.name, "` covers partitions ", t.partition, " to ", t.partition + t.shape[0] - 1, "; ",
                    chip.name, " has ", chip.partitions, "; loop over tiles of ", chip.partitions));
  }
  check_size(p, hbm, "HBM", chip.hbm.bytes, "", found);
  check_overlap(p, hbm_tensors, found);
  for (size_t c = 0; c < p.cores; ++c) {
    const std::string core = p.cores > 1 ? cat(" of core ", c) : std::string();
    check_size(p, sbuf[c], "SBUF" + core, chip.sbuf.bytes_per_partition, " per partition", found);
    check_size(p, psum[c], "PSUM" + core, chip.psum.banks * chip.psum.bank_bytes, " per partition", found);
  }
}

// Physical cores that may run a program together: a logical core's, or a chip's where they only meet in collectives.
static int64_t cores_max(const Program& p, const Chip& chip) {
  bool collective = false;
  for (const Stream& s : p.streams)
    for (const Insn& i : s.insns) {
      const Row& row = *row_by_opcode(i.opcode)->row;
      if (row.needs == Feature::core_pair) return chip.lnc_max;
      collective |= row.name.starts_with("collective");
    }
  return collective ? chip.cores : chip.lnc_max;
}

std::vector<Finding> verify(const Program& p, const Chip& chip) {
  std::vector<Finding> broken = check_structure(p);
  if (!broken.empty()) return broken;
  Findings found(p);
  if (const int64_t most = cores_max(p, chip); p.cores > most)
    found.add(Code::unsupported,
              cat("the program runs on ", p.cores, " cores together; ", chip.name, " joins at most ", most));
  check_memory(p, chip, found);
  if (!found.empty()) return found.take();
  const Forms forms(p);
  for (size_t s = 0; s < p.streams.size(); ++s) {
    const Stream& stream = p.streams[s];
    LoopNest loops;
    for (uint32_t pc = 0; pc < stream.insns.size() && !found.full(); ++pc) {
      const Insn& insn = stream.insns[pc];
      found.at(static_cast<int>(s), pc);
      if (insn.opcode == kOpEndLoop) --loops.depth;
      check_insn({p, chip, insn, *row_by_opcode(insn.opcode), stream.engine, stream.core, nullptr, nullptr, &forms},
                 loops, found);
      if (insn.opcode == kOpLoop) {
        const Operand& iterations = p.operands[insn.operand];
        loops.iterations[static_cast<size_t>(loops.depth++)] =
            iterations.kind == OperandKind::immediate ? static_cast<int64_t>(iterations.immediate) : -1;
      }
    }
  }
  return found.take();
}

}  // namespace trine::arch
