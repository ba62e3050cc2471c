// Bytes by way of the container; copying by way of the builder, which pools anew. See recording.h.
#include "arch/recording.h"

#include <cstring>

#include "arch/container.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr uint32_t kFixed = 1, kQueue = 2, kRepeats = 4;

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
  for (const Origin& o : kernel.origins) out.push_back(o.placed);
  for (const Work& w : kernel.works) {
    out.push_back(w.engines);
    out.push_back((w.fixed_order ? kFixed : 0) | (w.queue_given ? kQueue : 0) | (w.repeats ? kRepeats : 0));
    out.push_back(w.afters);
    for (uint32_t i = 0; i < w.afters; ++i) out.push_back(kernel.afters[w.after + i]);
  }
  return out;
}

class Appender {
 public:
  Appender(Kernel& to, const Recording& part, std::span<const uint32_t> tensors, int depth)
      : to_(to), part_(part), given_(tensors), depth_(size_t(depth)) {}

  Result<void> all() {
    if (part_.program.cores != 1 || part_.program.streams.size() > 1)
      return fail(Code::unsupported, cat("the kernel ", part_.program.name, " runs on ", part_.program.cores,
                                         " cores together; one core runs the program it is part of"));
    for (size_t i = 0; i < part_.program.tensors.size(); ++i) TRY(tensor(i));
    const auto first = uint32_t(to_.works.size());
    if (part_.program.streams.empty()) return {};
    const std::vector<Insn>& insns = part_.program.streams[0].insns;
    for (size_t i = 0; i < insns.size(); ++i) TRY(work(insns[i], part_.works[i], first));
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
    t.name = cat(part_.program.name, ".", t.name);
    while (to_.builder.find_tensor(t.name) >= 0) t.name += "_";
    if (t.space == Space::hbm) t.address = to_.builder.placer.next(t.space, 0);
    if (t.alias >= 0) t.alias = int32_t(tensors_[size_t(t.alias)]);
    const bool is_constant = t.kind == TensorKind::constant;
    tensors_.push_back(is_constant ? to_.builder.add_constant(std::move(t), bytes)
                                   : to_.builder.add_tensor(std::move(t)));
    to_.origins.push_back({part_.placed[i], 0});
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

  Result<void> work(const Insn& insn, const Recording::Beside& beside, uint32_t first) {
    Work out;
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
    to_.works.push_back(out);
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
  Stream stream;
  for (const Work& w : kernel.works) {
    Insn insn;
    insn.opcode = w.opcode();
    insn.operand = w.operand;
    insn.attr = w.attr;
    insn.line = w.line;
    stream.insns.push_back(insn);
  }
  program.streams = {std::move(stream)};
  const std::vector<uint32_t> words = words_of(kernel);
  const Attachment beside{SectionKind::works, std::as_bytes(std::span(words))};
  return program_bytes(program, {&beside, 1});
}

Result<Recording> parse_recording(std::span<const std::byte> bytes) {
  Recording out;
  std::vector<Attachment> attached;
  out.program = TRY(parse_program(bytes, "kernel", {}, &attached));
  const Attachment* found = nullptr;
  for (const Attachment& a : attached)
    if (a.kind == SectionKind::works) found = &a;
  if (!found) return fail(Code::invalid, "a program where the recording of a kernel is expected");
  Words words(found->bytes);
  for (size_t i = 0; i < out.program.tensors.size(); ++i) {
    out.placed.push_back(TRY(words.next()) != 0);
    if (out.program.tensors[i].alias >= int32_t(i))
      return fail(Code::invalid, "a kernel's output is the storage of a later tensor");
  }
  const size_t count = out.program.streams.empty() ? 0 : out.program.streams[0].insns.size();
  for (size_t i = 0; i < count; ++i) {
    Recording::Beside b;
    b.engines = EngineMask(TRY(words.next()));
    const uint32_t flags = TRY(words.next());
    b.fixed_order = flags & kFixed, b.queue_given = flags & kQueue, b.repeats = flags & kRepeats;
    const uint32_t afters = TRY(words.next());
    for (uint32_t k = 0; k < afters; ++k) {
      b.after.push_back(TRY(words.next()));
      if (b.after.back() >= i) return fail(Code::invalid, cat("work ", i, " of a kernel waits for a later one"));
    }
    if (!b.engines || (b.engines & ~kAnyEngine))
      return fail(Code::invalid, cat("work ", i, " of a kernel has no engine"));
    out.works.push_back(std::move(b));
  }
  if (!words.is_over()) return fail(Code::invalid, "a kernel's recording goes on after its works");
  return out;
}

Result<void> append(Kernel& to, const Recording& part, std::span<const uint32_t> tensors, int depth) {
  return Appender(to, part, tensors, depth).all();
}

}  // namespace trine::arch
