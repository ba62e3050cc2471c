// The disassembler: canonical text of a Program; see asm.h. Attributes at their default are left out.
#include <algorithm>
#include <bit>
#include <map>

#include "arch/asm/asm.h"
#include "arch/asm/kernel.h"
#include "arch/asm/operand.h"
#include "arch/program/builder.h"
#include "arch/row.h"
#include "arch/sequencer.h"
#include "base/text.h"

namespace trine::arch {

namespace {

using Labels = std::map<int64_t, std::string>;

// Every target of a jump gets a name, L0 on, in the order of the instructions.
Labels labels_of(const Program& p, const Stream& s) {
  Labels labels;
  for (const Insn& insn : s.insns) {
    const RowInfo* info = row_by_opcode(insn.opcode);
    for (size_t a = 0; a < info->attrs.size(); ++a)
      if (info->attrs[a].type == AttrType::label) labels[p.attrs[insn.attr + a]];
  }
  size_t n = 0;
  for (auto& [pc, name] : labels) name = cat("L", n++);
  return labels;
}

void append_real(std::string& out, double v) { append_text(out, v != v ? std::string("nan") : shortest(v)); }

void append_attr(std::string& out, const Program& p, const AttrSlot& slot, int64_t v, const Labels& labels) {
  switch (slot.type) {
    case AttrType::integer:
      return append_text(out, v);
    case AttrType::real:
      return append_real(out, std::bit_cast<double>(v));
    case AttrType::boolean:
      return append_text(out, v != 0);
    case AttrType::enumeration:
      return append_text(out, slot.set->members[static_cast<size_t>(v)]);
    case AttrType::ints: {
      out += '[';
      if (v >= 0) {
        const auto& list = p.lists[static_cast<size_t>(v)];
        for (size_t i = 0; i < list.size(); ++i) append_text(out, cat(i ? "," : "", list[i]));
      }
      out += ']';
      return;
    }
    case AttrType::string:
      return append_quoted(out, v < 0 ? std::string_view() : p.strings[static_cast<size_t>(v)]);
    case AttrType::label: {
      const auto it = labels.find(v);
      return append_text(out, it == labels.end() ? cat("#", v) : it->second);
    }
  }
}

void append_semaphores(std::string& out, const Program& p, const Insn& insn) {
  for (size_t i = 0; i < insn.waits; ++i) {
    const Wait& w = p.waits[insn.wait + i];
    append_text(out, cat(i ? " " : " wait ", "s", w.semaphore, w.op == WaitOp::ge ? ">=" : "=="));
    append_affine(out, {.constant = w.value, .steps = p.steps[w.steps]});
  }
  constexpr std::string_view kUpdates[] = {"+=", "-=", "="};
  for (size_t i = 0; i < insn.updates; ++i) {
    const Update& u = p.updates[insn.update + i];
    append_text(out, cat(i ? " " : " then ", "s", u.semaphore, kUpdates[static_cast<int>(u.op)], u.value));
  }
}

void append_insn(std::string& out, const Program& p, const Insn& insn, const Labels& labels) {
  const RowInfo& info = *row_by_opcode(insn.opcode);
  out += info.row->name;
  const bool bare = info.row->unit == Unit::control && info.slots.size() == 1;  // loop 4
  for (size_t i = 0; i < info.slots.size(); ++i) {
    const Operand& o = p.operands[insn.operand + i];
    if (o.kind == OperandKind::none) continue;
    append_text(out, bare ? std::string(" ") : cat(" ", info.slots[i].name, "="));
    append_operand(out, p, o);
  }
  for (size_t i = 0; i < info.attrs.size(); ++i) {
    const int64_t v = p.attrs[insn.attr + i];
    if (!info.attrs[i].required && v == info.attrs[i].initial) continue;
    append_text(out, cat(" ", info.attrs[i].name, "="));
    append_attr(out, p, info.attrs[i], v, labels);
  }
  append_semaphores(out, p, insn);
  if (insn.line) {
    const SourceLine& line = p.lines[insn.line - 1];
    out += " at ";
    append_name(out, p.strings[line.file]);
    append_text(out, cat(":", line.line));
  }
}

// `fill v` when every element has the same bits and v gives those bits back.
bool append_fill(std::string& out, const Tensor& t, std::span<const std::byte> bytes) {
  const size_t size = static_cast<size_t>(bits(t.dtype) / 8);
  if (is_packed(t.dtype) || bits(t.dtype) % 8 || bytes.size() < 2 * size) return false;
  if (!std::equal(bytes.begin() + static_cast<ptrdiff_t>(size), bytes.end(), bytes.begin())) return false;
  uint64_t one = 0;
  for (size_t i = 0; i < size; ++i) one |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  const float v = row(t.dtype).widen(one);
  Rounding rounding;
  if (row(t.dtype).round(v, rounding) != one) return false;
  out += " fill ";
  append_real(out, static_cast<double>(v));
  return true;
}

void append_tensor(std::string& out, const Program& p, const Tensor& t, int64_t default_address,
                   bool has_address = true) {
  out += t.kind == TensorKind::constant ? "const " : "tensor ";
  append_name(out, t.name);
  append_text(out, cat(" ", name(t.space), " ", row(t.dtype).name, "["));
  for (size_t i = 0; i < t.shape.size(); ++i) append_text(out, cat(i ? "," : "", t.shape[i]));
  out += ']';
  if (t.kind == TensorKind::input) out += " input";
  if (t.kind == TensorKind::output) out += " output";
  if (t.alias >= 0) {
    out += " alias ";
    append_name(out, p.tensors[static_cast<size_t>(t.alias)].name);
  }
  if (t.space != Space::hbm && has_address)
    append_text(out, cat(" at ", t.core ? cat(t.core, ".") : std::string(), t.partition, ":", t.address));
  if (t.space == Space::hbm && t.address != default_address) append_text(out, cat(" at ", t.address));
  if (t.kind == TensorKind::constant && t.data_bytes) {
    const std::span bytes(p.data.data() + t.data_offset, t.data_bytes);
    if (!append_fill(out, t, bytes)) {
      constexpr char kHex[] = "0123456789abcdef";
      out += " = 0x";
      for (std::byte b : bytes) {
        out += kHex[static_cast<int>(b) >> 4];
        out += kHex[static_cast<int>(b) & 15];
      }
    }
  }
}

void append_stream(std::string& out, const Program& p, const Stream& s) {
  append_text(out, cat("stream ", s.core ? cat(s.core, ".") : std::string(), name(s.engine), "\n"));
  const Labels labels = labels_of(p, s);
  const auto label_here = [&](size_t pc) {
    if (const auto it = labels.find(static_cast<int64_t>(pc)); it != labels.end())
      append_text(out, cat(it->second, ":\n"));
  };
  size_t depth = 1;
  for (size_t pc = 0; pc < s.insns.size(); ++pc) {
    label_here(pc);
    if (s.insns[pc].opcode == kOpEndLoop) --depth;
    out.append(2 * depth, ' ');
    append_insn(out, p, s.insns[pc], labels);
    out += '\n';
    if (s.insns[pc].opcode == kOpLoop) ++depth;
  }
  label_here(s.insns.size());
}

// Name, chip and tensors; has_address: of each tensor on chip whether its address is known; note: what stands behind
// it.
template <class HasAddress, class Note>
std::string head_of(std::string_view kind, const Program& p, HasAddress has_address, Note note) {
  std::string out(kind);
  append_name(out += ' ', p.name);
  out += '\n';
  if (!p.chip.empty()) append_name(out += "chip ", p.chip), out += '\n';
  if (!p.producer.empty()) append_name(out += "producer ", p.producer), out += '\n';
  if (p.cores != 1) append_text(out, cat("cores ", p.cores, "\n"));
  BumpAllocator allocator;
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& t = p.tensors[i];
    const bool behind = t.alias >= 0 && static_cast<size_t>(t.alias) < i;  // so the assembler knows its address
    append_tensor(out, p, t, behind ? p.tensors[static_cast<size_t>(t.alias)].address : allocator.next(t.space, t.core),
                  has_address(i));
    allocator.taken(t);
    append_text(out, cat(note(i), "\n"));
  }
  return out;
}

// What a recorded instruction knows beside itself.
void append_notes(std::string& out, const Kernel& kernel, const KernelInsn& w) {
  if (w.engines != engines_of(*w.info->row)) {
    out += " | on";
    for (int e = 0; e < kEngines; ++e)
      if (w.engines & (1 << e)) append_text(out, cat(" ", name(static_cast<Engine>(e))));
  }
  if (w.afters) out += " | after";
  for (uint32_t i = 0; i < w.afters; ++i) append_text(out, cat(" ", kernel.afters[w.after + i]));
  if (w.fixed_order) out += " | in order";
  if (w.queue_given) out += " | own queue";
  if (w.repeats) out += " | while";
}

}  // namespace

std::string disassemble(const Program& p) {
  std::string out = head_of("program", p, [](size_t) { return true; }, [](size_t) { return ""; });
  for (const Stream& s : p.streams) append_stream(out, p, s);
  return out;
}

std::string describe_insn(const Kernel& kernel, const KernelInsn& w) {
  Insn insn;
  insn.opcode = w.opcode();
  insn.operand = w.operand;
  insn.attr = w.attr;
  insn.line = w.line;
  std::string out = w.core ? cat(w.core, ".") : std::string();
  append_insn(out, kernel.program(), insn, {});
  return out;
}

std::string disassemble(const Kernel& kernel, bool has_addresses) {
  std::string out = head_of(
      "kernel", kernel.program(), [&](size_t i) { return has_addresses || kernel.origins[i].fixed_address; },
      [&](size_t i) { return kernel.origins[i].own ? " | own" : ""; });
  if (kernel.middle_end) out += "middle end\n";
  if (kernel.one_engine) out += "one engine\n";
  size_t depth = 1;
  for (const KernelInsn& w : kernel.insns) {
    if (ends_loop(w)) --depth;
    out.append(2 * depth, ' ');
    out += describe_insn(kernel, w);
    append_notes(out, kernel, w);
    out += '\n';
    if (begins_loop(w)) ++depth;
  }
  return out;
}

std::string describe_insn(const Program& p, const Stream& s, uint32_t pc) {
  std::string out;
  append_insn(out, p, s.insns[pc], {});
  return out;
}

std::string describe_tensor(const Program& p, uint32_t tensor) {
  const Tensor& t = p.tensors[tensor];
  std::string out;
  append_name(out, t.name);
  append_text(out, cat(" ", name(t.space), " ", row(t.dtype).name, "["));
  for (size_t i = 0; i < t.shape.size(); ++i) append_text(out, cat(i ? "," : "", t.shape[i]));
  return out += ']';
}

}  // namespace trine::arch
