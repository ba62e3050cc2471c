// Bytes by way of the container; copying by way of the builder, which pools anew. See recording.h.
#include "arch/program/recording.h"

#include <cstring>

#include "arch/program/container.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr uint32_t kFixed = 1, kQueue = 2, kRepeats = 4;
constexpr uint32_t kAddress = 1, kOwnBuffer = 2;    // of a tensor
constexpr uint32_t kMiddleEnd = 1, kOneEngine = 2;  // of the kernel

// Words of 32 bits, one after the other.
class Words {
 public:
  explicit Words(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Result<uint32_t> next() {
    if (at_ + 4 > bytes_.size()) return fail(Code::invalid, "a kernel's recording ends within its works");
    uint32_t word = 0;
    std::memcpy(&word, bytes_.data() + at_, 4);
    at_ += 4;
    return word;
  }
  bool is_over() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

std::vector<uint32_t> words_of(const Kernel& kernel) {
  std::vector<uint32_t> out;
  out.push_back((kernel.middle_end ? kMiddleEnd : 0) | (kernel.one_engine ? kOneEngine : 0));
  for (const Origin& o : kernel.origins) out.push_back((o.fixed_address ? kAddress : 0) | (o.own ? kOwnBuffer : 0));
  for (const KernelInsn& w : kernel.insns) {
    out.push_back(w.engines);
    out.push_back((w.fixed_order ? kFixed : 0) | (w.queue_given ? kQueue : 0) | (w.repeats ? kRepeats : 0));
    out.push_back(w.afters);
    for (uint32_t i = 0; i < w.afters; ++i) out.push_back(kernel.afters[w.after + i]);
  }
  return out;
}

bool is_everywhere(uint16_t opcode) { return opcode == kOpLoop || opcode == kOpEndLoop; }

// The next instruction in program order; `at`: how far each stream was read.
Result<Insn> next_of(const Program& p, std::vector<size_t>& at, EngineMask engines) {
  const auto first = size_t(only_engine(engines));
  if (at[first] >= p.streams[first].insns.size())
    return fail(Code::invalid, "a kernel's recording has fewer instructions than works");
  const Insn insn = p.streams[first].insns[at[first]];
  for (size_t e = 0; e < at.size(); ++e)
    if (e == first || is_everywhere(insn.opcode)) ++at[e];
  return insn;
}

class Appender {
 public:
  Appender(Kernel& to, const Recording& part, std::span<const uint32_t> tensors, int depth)
      : to_(to), part_(part), given_(tensors), depth_(size_t(depth)) {}

  Result<void> all() {
    if (part_.program.cores != 1)
      return fail(Code::unsupported, cat("the kernel ", part_.program.name, " runs on ", part_.program.cores,
                                         " cores together; one core runs the program it is part of"));
    for (size_t i = 0; i < part_.program.tensors.size(); ++i) TRY(tensor(i));
    const auto first = uint32_t(to_.insns.size());
    for (const Recording::Beside& w : part_.kernel_insns) TRY(kernel_insn(w.insn, w, first));
    return {};
  }

 private:
  Result<void> tensor(size_t i) {
    if (i < given_.size() && given_[i] != kOwn) {
      tensors_.push_back(given_[i]);
      return {};
    }
    Tensor t = part_.program.tensors[i];
    const auto* const data = part_.program.data.data() + t.data_offset;
    const std::span<const std::byte> bytes(data, t.data_bytes);
    if (!part_.program.name.empty()) t.name = cat(part_.program.name, ".", t.name);
    while (to_.builder.find_tensor(t.name) >= 0) t.name += "_";
    if (t.alias >= 0) t.alias = int32_t(tensors_[size_t(t.alias)]);
    if (t.space == Space::hbm)
      t.address =
          t.alias >= 0 ? to_.program().tensors[size_t(t.alias)].address : to_.builder.allocator.next(t.space, 0);
    const bool is_constant = t.kind == TensorKind::constant;
    tensors_.push_back(is_constant ? to_.builder.add_constant(std::move(t), bytes)
                                   : to_.builder.add_tensor(std::move(t)));
    to_.origins.push_back(part_.origins[i]);
    return {};
  }

  Result<Operand> operand(const Operand& from) {
    if (from.kind != OperandKind::tile) return from;
    Pattern p = part_.program.patterns[from.pattern];
    if (depth_) {
      std::array<int64_t, kLoopDepthMax> step{};
      for (size_t d = 0; d < p.step.size(); ++d) {
        if (p.step[d] && d + depth_ >= step.size())
          return fail(Code::unsupported, cat("more than ", kLoopDepthMax, " loops inside each other"));
        if (d + depth_ < step.size()) step[d + depth_] = p.step[d];
      }
      p.step = step;
    }
    uint32_t dynamic = 0;
    if (from.dynamic) {
      const Dynamic& d = part_.program.dynamics[from.dynamic - 1];
      dynamic = d.kind == DynamicKind::reg
                    ? to_.builder.dynamic(d)
                    : to_.builder.dynamic(d.kind, TRY(operand(part_.program.operands[d.index])), d.scale);
    }
    return to_.builder.tile(tensors_[from.tensor], p, from.offset, from.partition, dynamic);
  }

  int64_t attr(const AttrSlot& slot, int64_t value) {
    if (slot.type == AttrType::ints && value >= 0) return to_.builder.list(part_.program.lists[size_t(value)]);
    if (slot.type == AttrType::string && value >= 0) return to_.builder.string(part_.program.strings[size_t(value)]);
    return value;
  }

  Result<void> kernel_insn(const Insn& insn, const Recording::Beside& beside, uint32_t first) {
    KernelInsn out;
    out.info = row_by_opcode(insn.opcode);
    std::vector<Operand> operands;
    for (size_t i = 0; i < out.info->slots.size(); ++i)
      operands.push_back(TRY(operand(part_.program.operands[insn.operand + i])));
    auto& pool = to_.program().operands;
    out.operand = uint32_t(pool.size());
    pool.insert(pool.end(), operands.begin(), operands.end());
    std::vector<int64_t> attrs;
    for (size_t i = 0; i < out.info->attrs.size(); ++i)
      attrs.push_back(attr(out.info->attrs[i], part_.program.attrs[insn.attr + i]));
    out.attr = to_.attr_block(attrs);
    if (insn.line) {
      const SourceLine& line = part_.program.lines[insn.line - 1];
      out.line = to_.builder.line(part_.program.strings[line.file], line.line);
    }
    out.engines = beside.engines;
    out.fixed_order = beside.fixed_order;
    out.queue_given = beside.queue_given;
    out.repeats = beside.repeats;
    out.after = uint32_t(to_.afters.size());
    out.afters = uint32_t(beside.after.size());
    for (uint32_t n : beside.after) to_.afters.push_back(first + n);
    to_.insns.push_back(out);
    return {};
  }

  Kernel& to_;
  const Recording& part_;
  std::span<const uint32_t> given_;
  const size_t depth_;
  std::vector<uint32_t> tensors_;
};

}  // namespace

std::vector<uint32_t> Recording::tensors(TensorKind kind) const {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].kind == kind) out.push_back(i);
  return out;
}

Result<std::vector<std::byte>> recording_bytes(const Kernel& kernel) {
  if (kernel.program().cores != 1)
    return fail(Code::unsupported, cat("the kernel ", kernel.program().name, " runs on ", kernel.program().cores,
                                       " cores together; expected one"));
  Program program = kernel.program();
  program.streams.clear();
  for (int e = 0; e < kEngines; ++e) program.streams.push_back({0, Engine(e), {}});
  for (const KernelInsn& w : kernel.insns) {
    Insn insn;
    insn.opcode = w.opcode();
    insn.operand = w.operand;
    insn.attr = w.attr;
    insn.line = w.line;
    for (size_t e = 0; e < size_t(kEngines); ++e)
      if (is_everywhere(w.opcode()) || e == size_t(only_engine(w.engines))) program.streams[e].insns.push_back(insn);
  }
  const std::vector<uint32_t> words = words_of(kernel);
  const Attachment beside{SectionKind::kernel_insns, std::as_bytes(std::span(words))};
  return program_bytes(program, {&beside, 1});
}

Result<Recording> parse_recording(std::span<const std::byte> bytes) {
  Recording out;
  std::vector<Attachment> attached;
  out.program = TRY(parse_program(bytes, "kernel", {}, &attached));
  const Attachment* found = nullptr;
  for (const Attachment& a : attached)
    if (a.kind == SectionKind::kernel_insns) found = &a;
  if (!found) return fail(Code::invalid, "a program where the recording of a kernel is expected");
  Words words(found->bytes);
  const uint32_t rules = TRY(words.next());
  out.middle_end = rules & kMiddleEnd;
  out.one_engine = rules & kOneEngine;
  for (size_t i = 0; i < out.program.tensors.size(); ++i) {
    const uint32_t flags = TRY(words.next());
    out.origins.push_back({(flags & kAddress) != 0, 0, (flags & kOwnBuffer) != 0});
    if (out.program.tensors[i].alias >= int32_t(i))
      return fail(Code::invalid, "a kernel's output is the storage of a later tensor");
  }
  if (out.program.streams.size() != size_t(kEngines))
    return fail(Code::invalid, cat("a kernel's recording has ", out.program.streams.size(), " streams"));
  std::vector<size_t> at(size_t(kEngines), 0);
  for (size_t i = 0; !words.is_over(); ++i) {
    Recording::Beside b;
    b.engines = EngineMask(TRY(words.next()));
    if (!b.engines || (b.engines & ~kAnyEngine))
      return fail(Code::invalid, cat("work ", i, " of a kernel has no engine"));
    b.insn = TRY(next_of(out.program, at, b.engines));
    const uint32_t flags = TRY(words.next());
    b.fixed_order = flags & kFixed, b.queue_given = flags & kQueue, b.repeats = flags & kRepeats;
    const uint32_t afters = TRY(words.next());
    for (uint32_t k = 0; k < afters; ++k) {
      b.after.push_back(TRY(words.next()));
      if (b.after.back() >= i) return fail(Code::invalid, cat("work ", i, " of a kernel waits for a later one"));
    }
    out.kernel_insns.push_back(std::move(b));
  }
  return out;
}

Result<void> append(Kernel& to, const Recording& part, std::span<const uint32_t> tensors, int depth) {
  return Appender(to, part, tensors, depth).all();
}

}  // namespace trine::arch
