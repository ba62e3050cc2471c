// check_structure(): every index in range, every enum a member, loops nested, labels inside their body, and no address
// that could overflow. Runs on programs from hostile files, so it reads nothing before it was checked.
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "arch/program/builder.h"
#include "arch/program/verify.h"
#include "arch/row.h"
#include "arch/sequencer.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr int64_t kOffsetMax = int64_t{1} << 46, kScaleMax = int64_t{1} << 27, kElementsMax = int64_t{1} << 40;
constexpr int64_t kValueMax = int64_t{1} << 40;                // of a wait, an attribute, an entry of a list
constexpr double kReachMax = 0x1p58;                           // elements; times eight bytes still fits
constexpr double kIterationsMax = 0x1p31, kIndexMax = 0x1p32;  // what a register or an index tile can hold
constexpr int kPartitionsMax = 256;                            // no chip has more
constexpr size_t kRankMax = 16;

template <class E>
bool member(E value, E last) {
  return static_cast<int>(value) <= static_cast<int>(last);
}

bool within(int64_t v, int64_t limit) { return v >= -limit && v <= limit; }

class Structure {
 public:
  explicit Structure(const Program& p) : p_(p), found_(p) {}

  std::vector<Finding> run() {
    check_pools();
    check_tensors();
    if (!found_.empty()) return found_.take();  // what follows reads through the pools
    check_dynamics();
    check_operands();
    if (!found_.empty()) return found_.take();
    std::set<std::pair<int, Engine>> seen;
    for (size_t s = 0; s < p_.streams.size() && !found_.full(); ++s) {
      const Stream& stream = p_.streams[s];
      found_.whole_program();
      if (stream.core >= p_.cores || !member(stream.engine, Engine::sync))
        bad(cat("stream ", s, " is for core ", stream.core, ", engine ", static_cast<int>(stream.engine),
                "; expected a core below ", p_.cores, " and one of the five engines"));
      else if (!seen.emplace(stream.core, stream.engine).second)
        bad(cat("core ", stream.core, " has two ", name(stream.engine), " streams, expected one per engine"));
      else
        check_stream(s);
    }
    return found_.take();
  }

 private:
  void bad(std::string message) { found_.add(Code::invalid, std::move(message)); }

  void check_pools();
  void check_tensors();
  void check_tensor(const Tensor& t);
  void check_alias(const Tensor& t);
  void check_dynamics();
  void check_operands();
  void check_stream(size_t s);
  bool check_loops(const Stream& s);
  bool check_blocks(const Insn& insn, const RowInfo& info);
  void check_slots(const Insn& insn, const RowInfo& info);
  void check_tile(const Operand& o, std::string_view slot);
  void check_immediate(const Operand& o, const RowInfo& info, const OperandSlot& slot);
  void check_attr(int64_t v, const RowInfo& info, const AttrSlot& slot);
  void check_waits(const Insn& insn);

  const Program& p_;
  Findings found_;
  LoopNest loops_;
  std::vector<uint32_t> body_;  // of each instruction of the stream, and of its end: which loop body it is in
  uint32_t pc_ = 0;
};

void Structure::check_pools() {
  if (p_.cores < 1) bad("the program is for 0 cores, expected at least 1");
  if (p_.steps.empty() || p_.steps[0] != std::array<int64_t, kLoopDepthMax>{})
    return bad("steps entry 0 must be all zero");
  for (const auto& steps : p_.steps)
    for (int64_t s : steps)
      if (!within(s, kValueMax)) return bad("a wait's step is outside ±2^40");
  for (const Pattern& a : p_.patterns) {
    if (!member(a.dtype, Dtype::f4e2m1fn_x4) || a.rank > kFreeDimsMax || !a.partitions)
      return bad("an access pattern has an unknown dtype, more than 4 free dims or no partitions");
    double elements = a.partitions, reach = std::abs(static_cast<double>(a.partition_stride)) * a.partitions;
    for (size_t d = 0; d < kFreeDimsMax; ++d) {
      elements *= a.dims[d].count;
      reach += std::abs(static_cast<double>(a.dims[d].stride)) * a.dims[d].count;
      if (d >= a.rank && a.dims[d] != Dim{}) return bad("an access pattern has something in a dim it does not use");
      if (!a.dims[d].count || !within(a.dims[d].stride, kOffsetMax))
        return bad("an access pattern has a dim of count 0 or a stride outside ±2^46");
    }
    if (elements > static_cast<double>(kElementsMax)) return bad("an access pattern walks more than 2^40 elements");
    if (!within(a.partition_stride, kOffsetMax)) return bad("an access pattern has a row stride outside ±2^46");
    if (reach >= kReachMax) return bad("an access pattern reaches past 2^58 elements");  // one that no operand has too
  }
  for (const Wait& w : p_.waits)
    if (!member(w.op, WaitOp::eq) || w.steps >= p_.steps.size() || !within(w.value, kValueMax))
      return bad("a wait has an unknown comparison, steps that are not there or a value outside ±2^40");
  for (const Update& u : p_.updates)
    if (!member(u.op, UpdateOp::set) || !within(u.value, int64_t{1} << 31))
      return bad("a semaphore update has an unknown operation or a value outside ±2^31");
  for (const auto& list : p_.lists)
    for (int64_t v : list)
      if (!within(v, kValueMax)) return bad(cat("a list holds ", v, ", expected values within ±2^40"));
  for (const SourceLine& line : p_.lines)
    if (line.file >= p_.strings.size() || p_.strings[line.file].empty())
      return bad("a source line names a file that is not in the strings");
}

void Structure::check_tensors() {
  std::set<std::string_view> names;
  for (const Tensor& t : p_.tensors) {
    if (found_.full()) return;
    if (t.name.empty() || !names.insert(t.name).second) bad(cat("two tensors are named `", t.name, "`"));
    check_tensor(t);
  }
}

void Structure::check_tensor(const Tensor& t) {
  const auto wrong = [&](const auto&... parts) { bad(cat("tensor `", t.name, "` ", parts...)); };
  if (!member(t.space, Space::psum) || !member(t.dtype, Dtype::f4e2m1fn_x4) || !member(t.kind, TensorKind::constant))
    return wrong("has an unknown memory, dtype or kind");
  if (t.shape.size() > kRankMax || !size_fits(t))
    return wrong("has more than 16 dims, a negative one, or over 2^46 bytes");
  if (t.address < 0 || t.address > kOffsetMax) return wrong("lies at address ", t.address, ", expected 0 to 2^46");
  if (t.space == Space::hbm) {
    if (t.core || t.partition) return wrong("is in HBM, which has no core and no partitions");
    if (t.address % 256) return wrong("lies at HBM address ", t.address, ", expected a multiple of 256");
  } else {
    if (t.core >= p_.cores) return wrong("lies on core ", t.core, " of a program for ", p_.cores, " (write `cores N`)");
    if (t.shape.empty() || element_count(t) == 0)
      return wrong("is on chip and has no elements; expected a shape [partitions, …]");
    if (t.partition < 0 || t.partition > kPartitionsMax || t.shape[0] > kPartitionsMax - t.partition)
      return wrong("covers partitions ", t.partition, " to ", t.partition + t.shape[0] - 1, ", expected at most ",
                   kPartitionsMax, " of them; tile the first dimension");
  }
  if (t.kind == TensorKind::constant) {
    const auto size = static_cast<uint64_t>(tensor_bytes(t));
    if (t.data_bytes &&
        (t.data_bytes != size || t.data_offset > p_.data.size() || size > p_.data.size() - t.data_offset))
      return wrong("has ", t.data_bytes, " bytes of constant data at ", t.data_offset, ", expected ", size,
                   " inside the program's ", p_.data.size());
  } else if (t.data_bytes || t.data_offset) {
    return wrong("has data but is no constant");
  }
  check_alias(t);
}

void Structure::check_alias(const Tensor& t) {
  if (t.alias == -1) return;
  const auto wrong = [&](std::string_view what) { bad(cat("tensor `", t.name, "` ", what)); };
  if (t.alias < 0 || static_cast<size_t>(t.alias) >= p_.tensors.size())
    return wrong("is the alias of a tensor that is not there");
  const Tensor& input = p_.tensors[static_cast<size_t>(t.alias)];
  if (t.kind != TensorKind::output || input.kind != TensorKind::input)
    return wrong("is an alias; only an output may be one, and of an input");
  if (t.space != input.space || t.dtype != input.dtype || t.shape != input.shape || t.address != input.address ||
      t.partition != input.partition || t.core != input.core)
    wrong("and the input it aliases differ in memory, dtype, shape or address");
}

void Structure::check_dynamics() {
  for (const Dynamic& d : p_.dynamics) {
    if (!member(d.kind, DynamicKind::free) || d.reg >= kRegisterCount || !within(d.scale, kScaleMax))
      return bad("a dynamic address has an unknown kind, a register above r63 or a scale outside ±2^27");
    if (d.kind == DynamicKind::reg) continue;
    if (d.index >= p_.operands.size() || p_.operands[d.index].kind != OperandKind::tile)
      return bad("a gathered address names an index tile that is not there");
    const uint32_t inner = p_.operands[d.index].dynamic;
    if (inner && (inner > p_.dynamics.size() || p_.dynamics[inner - 1].kind != DynamicKind::reg))
      return bad("an index tile cannot itself be gathered");
  }
}

void Structure::check_operands() {
  for (const Operand& o : p_.operands) {
    if (!member(o.kind, OperandKind::reg)) return bad("an operand is of unknown kind");
    if (o.reg >= kRegisterCount)
      return bad(cat("an operand is register r", o.reg, ", expected below r", kRegisterCount));
    if (o.kind != OperandKind::tile) continue;
    if (o.tensor >= p_.tensors.size() || o.pattern >= p_.patterns.size() || o.dynamic > p_.dynamics.size())
      return bad("an operand's tensor, pattern or dynamic address is not there");
    if (!within(o.offset, kOffsetMax)) return bad("an operand's offset is outside ±2^46");
    if (p_.tensors[o.tensor].space == Space::hbm && o.partition) return bad("an HBM operand has a start partition");
    if (p_.tensors[o.tensor].space == Space::hbm) continue;
    if (p_.patterns[o.pattern].partition_stride) return bad("an on-chip operand has a row stride");
    if (o.partition + p_.patterns[o.pattern].partitions > kPartitionsMax)
      return bad(cat("an on-chip operand covers more than ", kPartitionsMax, " partitions"));
  }
}

// Fills body_: 0 outside loops, else the number of the innermost open one.
bool Structure::check_loops(const Stream& s) {
  std::vector<uint32_t> open;
  uint32_t next = 0;
  body_.assign(1, 0);
  for (uint32_t pc = 0; pc < s.insns.size(); ++pc) {
    if (s.insns[pc].opcode == kOpLoop) {
      open.push_back(++next);
      if (open.size() > kLoopDepthMax) return bad(cat("loops nest deeper than ", kLoopDepthMax)), false;
    } else if (s.insns[pc].opcode == kOpEndLoop) {
      if (open.empty()) return bad("an end_loop has no loop"), false;
      open.pop_back();
    }
    body_.push_back(open.empty() ? 0 : open.back());
  }
  if (!open.empty()) return bad(cat("a loop of the ", name(s.engine), " stream has no end_loop")), false;
  return true;
}

void Structure::check_stream(size_t index) {
  const Stream& s = p_.streams[index];
  if (s.insns.size() > std::numeric_limits<int32_t>::max()) return bad("a stream has more than 2^31 instructions");
  if (!check_loops(s)) return;
  loops_ = {};
  for (pc_ = 0; pc_ < s.insns.size() && !found_.full(); ++pc_) {
    const Insn& insn = s.insns[pc_];
    found_.at(static_cast<int>(index), pc_);
    const RowInfo* info = row_by_opcode(insn.opcode);
    if (!info) {
      bad(cat("opcode ", insn.opcode, " is no instruction of this build"));
      continue;
    }
    if (!(info->row->engines & bit(s.engine)))
      bad(cat(info->row->name, " does not run on the ", name(s.engine), " engine"));
    if (insn.opcode == kOpEndLoop) --loops_.depth;
    if (check_blocks(insn, *info)) {
      check_slots(insn, *info);
      for (size_t a = 0; a < info->attrs.size(); ++a) check_attr(p_.attrs[insn.attr + a], *info, info->attrs[a]);
      check_waits(insn);
    }
    if (insn.opcode == kOpLoop) {
      const bool counted =
          !info->slots.empty() && found_.empty() && p_.operands[insn.operand].kind == OperandKind::immediate;
      loops_.iterations[static_cast<size_t>(loops_.depth++)] =
          counted ? static_cast<int64_t>(p_.operands[insn.operand].immediate) : -1;
    }
  }
}

bool Structure::check_blocks(const Insn& insn, const RowInfo& info) {
  const auto inside = [](size_t first, size_t n, size_t size) { return !n || (first <= size && n <= size - first); };
  const bool ok = inside(insn.operand, info.slots.size(), p_.operands.size()) &&
                  inside(insn.attr, info.attrs.size(), p_.attrs.size()) &&
                  inside(insn.wait, insn.waits, p_.waits.size()) &&
                  inside(insn.update, insn.updates, p_.updates.size()) && insn.line <= p_.lines.size();
  if (!ok) bad(cat(info.row->name, ": its operands, attributes, waits, updates or line are not in the pools"));
  return ok;
}

std::string kinds_text(uint8_t kinds) {
  constexpr std::pair<uint8_t, std::string_view> kNames[] = {
      {kHbm, "hbm"}, {kSbuf, "sbuf"}, {kPsum, "psum"}, {kImm, "a number"}, {kReg, "a register"}};
  std::vector<std::string> names;
  for (const auto& [kind, text] : kNames)
    if (kinds & kind) names.emplace_back(text);
  return join(names, " or ");
}

void Structure::check_slots(const Insn& insn, const RowInfo& info) {
  for (size_t i = 0; i < info.slots.size(); ++i) {
    const OperandSlot& slot = info.slots[i];
    const Operand& o = p_.operands[insn.operand + i];
    if (o.kind == OperandKind::none) {
      if (!slot.optional)
        bad(cat(info.row->name, ": operand `", slot.name, "` is missing, expected ", kinds_text(slot.kinds)));
      continue;
    }
    constexpr uint8_t kSpaces[] = {kHbm, kSbuf, kPsum}, kOthers[] = {0, 0, kImm, kReg};
    const uint8_t kind = o.kind == OperandKind::tile ? kSpaces[static_cast<int>(p_.tensors[o.tensor].space)]
                                                     : kOthers[static_cast<int>(o.kind)];
    if (!(slot.kinds & kind)) {
      bad(cat(info.row->name, ": operand `", slot.name, "` is ", kinds_text(kind), ", expected ",
              kinds_text(slot.kinds)));
      continue;
    }
    if (o.kind == OperandKind::tile) check_tile(o, slot.name);
    if (o.kind == OperandKind::immediate) check_immediate(o, info, slot);
  }
}

// No sum of its terms can overflow, and it uses only the loops around it.
void Structure::check_tile(const Operand& o, std::string_view slot) {
  const Pattern& a = p_.patterns[o.pattern];
  double reach =
      std::abs(static_cast<double>(o.offset)) + std::abs(static_cast<double>(a.partition_stride)) * a.partitions;
  for (const Dim& d : a.dims) reach += std::abs(static_cast<double>(d.stride)) * d.count;
  for (size_t d = 0; d < kLoopDepthMax; ++d) {
    if (!a.step[d]) continue;
    if (d >= static_cast<size_t>(loops_.depth))
      return bad(cat("operand `", slot, "` steps with loop i", d, ", but only ", loops_.depth, " loops are open here"));
    const double iterations = loops_.iterations[d] < 0 ? kIterationsMax : static_cast<double>(loops_.iterations[d]);
    reach += std::abs(static_cast<double>(a.step[d])) * std::max(iterations, 1.0);
  }
  const Dynamic* dynamic = o.dynamic ? &p_.dynamics[o.dynamic - 1] : nullptr;
  if (dynamic) reach += std::abs(static_cast<double>(dynamic->scale)) * kIndexMax;
  if (reach >= kReachMax) return bad(cat("operand `", slot, "` reaches addresses past 2^58 elements"));
  if (dynamic && dynamic->kind != DynamicKind::reg) check_tile(p_.operands[dynamic->index], slot);
}

void Structure::check_immediate(const Operand& o, const RowInfo& info, const OperandSlot& slot) {
  if (info.row->unit != Unit::control) return;
  const double v = o.immediate, low = info.row->opcode == kOpLoop ? 0 : -0x1p31, high = 0x1p32 - 1;
  if (!(v >= low && v <= (info.row->opcode == kOpLoop ? kIterationsMax - 1 : high)) || v != std::floor(v))
    bad(cat(info.row->name, ": operand `", slot.name, "` is ", v, ", expected a whole number of 32 bits",
            low == 0 ? " that is not negative" : ""));
}

void Structure::check_attr(int64_t v, const RowInfo& info, const AttrSlot& slot) {
  const auto wrong = [&](std::string_view expected) {
    bad(cat(info.row->name, ": attribute `", slot.name, "` is ", v, ", expected ", expected));
  };
  const auto below = [&](size_t size) { return v >= 0 && static_cast<uint64_t>(v) < size; };
  switch (slot.type) {
    case AttrType::boolean:
      if (!below(2)) wrong("0 or 1");
      return;
    case AttrType::enumeration:
      if (!below(slot.set->members.size())) wrong(cat("a member of ", slot.set->name));
      return;
    case AttrType::ints:
      if (v != -1 && !below(p_.lists.size())) wrong("a list of the program");
      return;
    case AttrType::string:
      if (v != -1 && !below(p_.strings.size())) wrong("a string of the program");
      return;
    case AttrType::label:
      if (!below(body_.size()))
        wrong(cat("an instruction of this stream, 0 to ", body_.size() - 1));
      else if (body_[static_cast<size_t>(v)] != body_[pc_])
        bad(cat(info.row->name, ": attribute `", slot.name,
                "` leaves or enters a loop; a jump must stay inside its loop's body"));
      return;
    case AttrType::integer:
      if (!within(v, kValueMax)) wrong("a value within ±2^40");
      return;
    case AttrType::real:
      return;
  }
}

void Structure::check_waits(const Insn& insn) {
  for (size_t i = 0; i < insn.waits; ++i) {
    const auto& steps = p_.steps[p_.waits[insn.wait + i].steps];
    double reach = 0;
    for (size_t d = 0; d < kLoopDepthMax; ++d) {
      if (!steps[d]) continue;
      if (d >= static_cast<size_t>(loops_.depth))
        return bad(cat("a wait steps with loop i", d, ", but only ", loops_.depth, " loops are open here"));
      reach += std::abs(static_cast<double>(steps[d])) *
               std::max(1.0, loops_.iterations[d] < 0 ? kIterationsMax : static_cast<double>(loops_.iterations[d]));
    }
    if (reach >= kReachMax) return bad("a wait's value passes 2^58");
  }
}

}  // namespace

std::vector<Finding> check_structure(const Program& p) { return Structure(p).run(); }

}  // namespace trine::arch
