// Recording; see trace.h. What the structure of a Program asks for is checked here, so that later passes may rely on
// it.
#include "front/nki/trace.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "arch/program/record.h"
#include "base/text.h"

namespace trine::front {

using arch::Operand;
using arch::OperandKind;

namespace {

constexpr int64_t kReachMax = int64_t{1} << 46;  // elements; the limit of a Program's offsets and strides
constexpr int64_t kIterationsMax = (int64_t{1} << 31) - 1;

bool within(int64_t v, int64_t limit) { return v >= -limit && v <= limit; }

std::string_view space_name(uint8_t kinds) {
  return kinds & arch::kSbuf ? "sbuf" : kinds & arch::kPsum ? "psum" : kinds & arch::kHbm ? "hbm" : "a number";
}

std::string kinds_text(uint8_t kinds) {
  std::string out;
  for (const uint8_t kind : {arch::kHbm, arch::kSbuf, arch::kPsum, arch::kImm, arch::kReg})
    if (kinds & kind) out += cat(out.empty() ? "" : " or ", kind == arch::kReg ? "a register" : space_name(kind));
  return out;
}

template <class Range, class F>
std::string near(std::string_view name, const Range& all, F name_of) {
  std::vector<std::string> names;
  for (const auto& one : all) names.emplace_back(name_of(one));
  return join(nearest(name, names), ", ");
}

// An instruction that keeps a value inside its engine, so that the engine cannot be left open.
bool keeps_state(const arch::RowInfo& info) { return info.row->name.starts_with("ran") || info.row->name == "rng"; }

}  // namespace

Result<Trace> Trace::make(std::string name, std::string_view chip, int cores, Dialect dialect) {
  return make(std::move(name), *TRY(arch::find_chip(chip)), cores, dialect);
}

Result<Trace> Trace::make(std::string name, const arch::Chip& chip, int cores, Dialect dialect) {
  if (cores < 1 || cores > chip.cores)
    return fail(Code::unsupported, cat("the kernel runs on ", cores, " cores together; ", chip.name, " has ",
                                       chip.cores, "; launch it with that many"));
  Trace t;
  t.kernel_.chip = &chip;
  t.kernel_.program().name = std::move(name);
  t.kernel_.program().chip = chip.name;
  t.kernel_.program().cores = static_cast<uint8_t>(cores);
  t.kernel_.middle_end = dialect == Dialect::functional;
  t.kernel_.one_engine = dialect != Dialect::current;
  t.own_buffers_ = dialect == Dialect::current;
  t.loops_.resize(static_cast<size_t>(cores));
  return t;
}

Error Trace::diagnose(Diagnostic c) {
  if (c.file.empty()) {
    c.file = file_;
    c.line = line_;
  }
  diagnostic_ = std::move(c);
  return diagnostic_.error();
}

Error Trace::wrong(std::string_view rule, std::string found, std::string expected, std::string fix) {
  return diagnose({Code::invalid, std::string(rule), std::move(found), std::move(expected), std::move(fix), {}, 0});
}

Result<Dtype> Trace::dtype_of(std::string_view name) {
  if (const auto found = dtype_by_name(name); found && is_on_chip(*found)) return *found;
  return wrong("dtype", cat("dtype \"", name, "\""),
               cat("a number format; near: ", near(name, kChipDtypes, [](const DtypeRow& r) { return r.name; })));
}

Result<void> Trace::check_core(int core) {
  if (core >= 0 && core < kernel_.program().cores) return {};
  return wrong("core", cat("core ", core), cat("0 to ", kernel_.program().cores - 1));
}

Result<uint32_t> Trace::tensor(const TensorArgs& args) {
  file_ = args.file, line_ = args.line;
  TRY(check_core(args.core));
  arch::Tensor t;
  t.name = args.name.empty() ? "tensor" : args.name;
  // Names are made unique: a kernel may use one for several tensors.
  if (const int n = names_[t.name]++; n) t.name += cat(".", n);
  while (kernel_.builder.find_tensor(t.name) >= 0) t.name += "_";
  t.space = args.space;
  t.dtype = TRY(dtype_of(args.dtype));
  t.kind = args.kind;
  t.core = static_cast<uint8_t>(args.space == arch::Space::hbm ? 0 : args.core);
  t.shape = args.shape;
  const bool on_chip = t.space != arch::Space::hbm;
  const auto& chip = *kernel_.chip;
  // What memory cannot hold is refused here, where the user's line is known.
  if (!size_fits(t) || t.shape.size() > 16)
    return wrong("tensor size", cat("tensor `", t.name, "` has a negative dim, more than 16 or over 2^46 bytes"),
                 "a shape that memory can hold");
  if (on_chip && (t.shape.size() < 2 || t.shape[0] < 1 || t.shape[0] > chip.partitions))
    return wrong("partitions", cat("tensor `", t.name, "` has ", t.shape.empty() ? 0 : t.shape[0], " partitions"),
                 cat("a shape [partitions, …] with 1 to ", chip.partitions, " partitions"),
                 cat("loop over tiles of ", chip.partitions, " partitions"));
  if (on_chip && t.kind != arch::TensorKind::scratch)
    return wrong("tensor kind", cat("tensor `", t.name, "` is an argument or constant in ", name(t.space)), "hbm",
                 "load it into a tile");
  // An address of the user's is obeyed; else HBM gets the next one, and the compiler allocates on chip later.
  if (args.address) {
    const auto [partition, byte] = *args.address;
    const int64_t size =
        args.space == arch::Space::sbuf ? chip.sbuf.bytes_per_partition : chip.psum.banks * chip.psum.bank_bytes;
    if (!on_chip || partition < 0 || byte < 0 || partition + t.shape[0] > chip.partitions ||
        byte > size - arch::bytes_per_partition(t))
      return wrong("address",
                   cat("tensor `", t.name, "` at partition ", partition, ", byte ", byte, " of ", name(t.space)),
                   cat("an address inside its ", chip.partitions, " partitions of ", size, " bytes"));
    t.partition = static_cast<int32_t>(partition);
    t.address = byte;
  }
  if (!on_chip) t.address = kernel_.builder.allocator.next(t.space, 0);
  if (args.alias >= 0) {
    if (static_cast<size_t>(args.alias) >= kernel_.program().tensors.size() || on_chip)
      return wrong("alias", cat("tensor `", t.name, "` aliases tensor ", args.alias), "an input in hbm");
    t.alias = static_cast<int32_t>(args.alias);
    t.address = kernel_.program().tensors[static_cast<size_t>(args.alias)].address;
  }
  if (!args.data.empty() &&
      (t.kind != arch::TensorKind::constant || static_cast<int64_t>(args.data.size()) != arch::tensor_bytes(t)))
    return wrong("constant data", cat("tensor `", t.name, "` comes with ", args.data.size(), " bytes"),
                 cat("a constant of ", arch::tensor_bytes(t), " bytes"));
  const uint32_t index = t.kind == arch::TensorKind::constant ? kernel_.builder.add_constant(std::move(t), args.data)
                                                              : kernel_.builder.add_tensor(std::move(t));
  kernel_.origins.push_back(
      {args.address.has_value(), kernel_.builder.line(args.file, args.line), on_chip && own_buffers_});
  return index;
}

Result<uint32_t> Trace::dynamic_of(const TileArgs& args) {
  const int given = args.reg.has_value() + args.rows.has_value() + args.free.has_value();
  if (!given) return uint32_t{0};
  if (given > 1) return wrong("dynamic address", "more than one of reg, rows and free", "one of them");
  const auto [source, scale] = args.reg ? *args.reg : args.rows ? *args.rows : *args.free;
  if (!within(scale, int64_t{1} << 27)) return wrong("dynamic address", cat("scale ", scale), "one within ±2^27");
  if (args.reg) {
    if (source < 0 || source >= kernel_.chip->sequencer.registers)
      return wrong("register", cat("register ", source), cat("0 to ", kernel_.chip->sequencer.registers - 1));
    return kernel_.builder.dynamic({arch::DynamicKind::reg, static_cast<uint8_t>(source), 0, scale});
  }
  if (source < 0 || static_cast<size_t>(source) >= handles_.size() ||
      handles_[static_cast<size_t>(source)].kind != OperandKind::tile || handles_[static_cast<size_t>(source)].dynamic)
    return wrong("index tile", cat("operand ", source, " as an index"), "a tile with a static address");
  return kernel_.builder.dynamic(args.rows ? arch::DynamicKind::rows : arch::DynamicKind::free,
                                 handles_[static_cast<size_t>(source)], scale);
}

Result<uint32_t> Trace::tile(const TileArgs& args) {
  file_ = {}, line_ = 0;
  if (args.tensor >= kernel_.program().tensors.size())
    return wrong("tensor", cat("tensor number ", args.tensor), "one that tensor() returned");
  const arch::Tensor& t = kernel_.program().tensors[args.tensor];
  arch::Pattern p;
  p.dtype = args.dtype.empty() ? t.dtype : TRY(dtype_of(args.dtype));
  if (args.dims.size() > arch::kFreeDimsMax)
    return wrong("access pattern", cat("a view of `", t.name, "` with ", args.dims.size(), " free dims"),
                 cat("at most ", arch::kFreeDimsMax), "merge neighbouring dims or split the instruction");
  double elements = static_cast<double>(args.partitions);
  for (size_t d = 0; d < args.dims.size(); ++d) {
    const auto [stride, count] = args.dims[d];
    if (count < 1 || count > UINT32_MAX || !within(stride, kReachMax))
      return wrong("access pattern", cat("a view of `", t.name, "` with dim ", stride, "×", count),
                   "a count of 1 or more and a stride within ±2^46");
    p.dims[d] = {stride, static_cast<uint32_t>(count)};
    elements *= static_cast<double>(count);
  }
  p.rank = static_cast<uint8_t>(args.dims.size());
  const bool on_chip = t.space != arch::Space::hbm;
  if (args.partitions < 1 || args.partitions > UINT16_MAX || elements > 0x1p40 || !within(args.offset, kReachMax) ||
      !within(args.partition_stride, kReachMax))
    return wrong("access pattern", cat("a view of `", t.name, "` of ", args.partitions, " partitions at ", args.offset),
                 "1 to 65535 partitions, at most 2^40 elements, an offset within ±2^46");
  if (on_chip ? args.partition < 0 || args.partition > 255 || args.partition_stride : args.partition != 0)
    return wrong(
        "access pattern",
        cat("a view of `", t.name, "` from partition ", args.partition, ", row stride ", args.partition_stride),
        on_chip ? "a start partition below 256 and no row stride" : "no start partition in hbm");
  if (args.steps.size() > arch::kLoopDepthMax)
    return wrong("loops", cat("steps for ", args.steps.size(), " loops"), cat("at most ", arch::kLoopDepthMax));
  p.partitions = static_cast<uint16_t>(args.partitions);
  p.partition_stride = args.partition_stride;
  std::copy(args.steps.begin(), args.steps.end(), p.step.begin());
  const uint32_t dynamic = TRY(dynamic_of(args));
  handles_.push_back(kernel_.builder.tile(args.tensor, p, args.offset, static_cast<int>(args.partition), dynamic));
  return static_cast<uint32_t>(handles_.size() - 1);
}

uint32_t Trace::immediate(double value) {
  handles_.push_back(arch::immediate_operand(value));
  return static_cast<uint32_t>(handles_.size() - 1);
}

Result<uint32_t> Trace::register_(int64_t number) {
  file_ = {}, line_ = 0;
  if (number < 0 || number >= kernel_.chip->sequencer.registers)
    return wrong("register", cat("register ", number), cat("0 to ", kernel_.chip->sequencer.registers - 1));
  handles_.push_back(arch::register_operand(static_cast<int>(number)));
  return static_cast<uint32_t>(handles_.size() - 1);
}

Result<void> Trace::set_operands(const EmitArgs& args, arch::Draft& draft) {
  const arch::RowInfo& info = *draft.info;
  const arch::LoopNest& nest = loops_[static_cast<size_t>(args.core)];
  for (const auto& [slot_name, handle] : args.operands) {
    const int index = info.slot(slot_name);
    if (index < 0)
      return wrong("operand", cat(args.row, " has no operand `", slot_name, "`"),
                   cat("one of ", near(slot_name, info.slots, [](const arch::OperandSlot& s) { return s.name; })));
    if (handle >= handles_.size()) return wrong("operand", cat("operand number ", handle), "one that tile() returned");
    const Operand& o = handles_[handle];
    const arch::OperandSlot& slot = info.slots[static_cast<size_t>(index)];
    constexpr uint8_t kSpaces[] = {arch::kHbm, arch::kSbuf, arch::kPsum}, kOthers[] = {0, 0, arch::kImm, arch::kReg};
    const uint8_t kind = o.kind == OperandKind::tile
                             ? kSpaces[static_cast<int>(kernel_.program().tensors[o.tensor].space)]
                             : kOthers[static_cast<int>(o.kind)];
    if (!(slot.kinds & kind))
      return wrong("operand memory", cat(args.row, ": operand `", slot_name, "` is in ", kinds_text(kind)),
                   kinds_text(slot.kinds), kind == arch::kHbm ? "load it with dma_copy first" : "copy it there first");
    if (o.kind == OperandKind::tile)
      for (size_t d = static_cast<size_t>(nest.depth); d < arch::kLoopDepthMax; ++d)
        if (kernel_.program().patterns[o.pattern].step[d])
          return wrong("loops", cat(args.row, ": operand `", slot_name, "` steps with loop ", d),
                       cat("a loop that is open; there are ", nest.depth));
    draft.operands[static_cast<size_t>(index)] = o;
  }
  for (size_t i = 0; i < info.slots.size(); ++i)
    if (!info.slots[i].optional && draft.operands[i].kind == OperandKind::none)
      return wrong("operand", cat(args.row, ": operand `", info.slots[i].name, "` is missing"),
                   kinds_text(info.slots[i].kinds));
  return {};
}

Result<int64_t> Trace::encode(const arch::RowInfo& info, const arch::AttrSlot& slot, const AttrValue& value) {
  const auto bad = [&](std::string_view expected) {
    return wrong("attribute", cat(info.row->name, ": attribute `", slot.name, "` has a value of another kind"),
                 std::string(expected));
  };
  const auto* const integer = std::get_if<int64_t>(&value);
  const auto* const real = std::get_if<double>(&value);
  const auto* const text = std::get_if<std::string>(&value);
  const auto* const list = std::get_if<std::vector<int64_t>>(&value);
  const auto small = [](int64_t v) { return within(v, int64_t{1} << 40); };
  switch (slot.type) {
    case arch::AttrType::integer:
      if (integer && small(*integer)) return *integer;
      return bad("an integer within ±2^40");
    case arch::AttrType::boolean:
      if (integer && (*integer == 0 || *integer == 1)) return *integer;
      return bad("true or false");
    case arch::AttrType::real:
      if (real) return std::bit_cast<int64_t>(*real);
      if (integer) return std::bit_cast<int64_t>(static_cast<double>(*integer));
      return bad("a number");
    case arch::AttrType::enumeration:
      for (size_t i = 0; text && i < slot.set->members.size(); ++i)
        if (slot.set->members[i] == *text) return static_cast<int64_t>(i);
      if (integer && *integer >= 0 && *integer < static_cast<int64_t>(slot.set->members.size())) return *integer;
      return bad(cat("a member of ", slot.set->name, "; near: ",
                     near(text ? *text : std::string(), slot.set->members, [](std::string_view s) { return s; })));
    case arch::AttrType::ints:
      if (list && std::all_of(list->begin(), list->end(), small)) return kernel_.builder.list(*list);
      return bad("a list of integers within ±2^40");
    case arch::AttrType::string:
      if (text) return kernel_.builder.string(*text);
      return bad("a text");
    case arch::AttrType::label:
      return bad("nothing: a trace has loops, not labels");
  }
  return bad("a known type");
}

Result<void> Trace::set_attrs(const EmitArgs& args, arch::Draft& draft, KernelInsn& insn) {
  const arch::RowInfo& info = *draft.info;
  std::vector<char> given(info.attrs.size());
  for (const auto& [attr_name, value] : args.attrs) {
    const int index = info.attr(attr_name);
    if (index < 0)
      return wrong("attribute", cat(args.row, " has no attribute `", attr_name, "`"),
                   cat("one of ", near(attr_name, info.attrs, [](const arch::AttrSlot& s) { return s.name; })));
    const arch::AttrSlot& slot = info.attrs[static_cast<size_t>(index)];
    draft.attrs[static_cast<size_t>(index)] = TRY(encode(info, slot, value));
    given[static_cast<size_t>(index)] = 1;
    if (info.row->unit == arch::Unit::queue && slot.name == "queue") insn.queue_given = true;
  }
  for (size_t i = 0; i < info.attrs.size(); ++i)
    if (info.attrs[i].required && !given[i])
      return wrong("attribute", cat(args.row, ": attribute `", info.attrs[i].name, "` is missing"), "a value");
  return {};
}

Result<void> Trace::choose_engines(const EmitArgs& args, KernelInsn& insn) {
  arch::EngineMask open = insn.info->row->engines;
  if (!args.engine.empty()) {
    const auto engine = arch::engine_by_name(args.engine);
    if (!engine || !(open & arch::bit(*engine))) {
      std::string legal;
      for (int e = 0; e < arch::kEngines; ++e)
        if (open & (1 << e)) legal += cat(legal.empty() ? "" : ", ", name(static_cast<arch::Engine>(e)));
      return wrong("engine", cat(args.row, " on engine ", args.engine), cat("one of ", legal));
    }
    open = arch::bit(*engine);
  } else {
    open = arch::open_engines(insn);
  }
  auto legal = arch::legal_engines(kernel_, insn, open, loops_[insn.core], keeps_state(*insn.info));
  if (!legal) {
    Error first = legal.error();
    first.where.clear();
    return diagnose(diagnostic_of(first, args.row));
  }
  insn.engines = *legal;
  return {};
}

Result<uint32_t> Trace::emit(const EmitArgs& args) {
  file_ = args.file, line_ = args.line;
  TRY(check_core(args.core));
  const arch::RowInfo* const info = arch::row_by_name(args.row);
  if (!info)
    return diagnose({Code::not_found,
                     "instruction",
                     cat("no instruction `", args.row, "`"),
                     cat("one of the machine's; near: ",
                         near(args.row, arch::rows(), [](const arch::RowInfo& r) { return r.row->name; })),
                     {},
                     {},
                     0});
  if (info->row->opcode <= arch::kOpJump || info->row->name.starts_with("semaphore_"))
    return wrong("instruction", cat("`", args.row, "` in a kernel"), "data and register instructions",
                 "use loop() and end_loop(); order comes from the operands and `after`");
  KernelInsn insn;
  insn.info = info;
  insn.core = static_cast<uint8_t>(args.core);
  insn.fixed_order = args.fixed_order;
  arch::Draft draft(*info);
  TRY(set_operands(args, draft));
  TRY(set_attrs(args, draft, insn));
  auto& pool = kernel_.program().operands;
  insn.operand = static_cast<uint32_t>(pool.size());
  pool.insert(pool.end(), draft.operands.begin(), draft.operands.end());
  insn.attr = kernel_.attr_block(draft.attrs);
  insn.line = kernel_.builder.line(args.file, args.line);
  TRY(choose_engines(args, insn));
  insn.after = static_cast<uint32_t>(kernel_.afters.size());
  insn.afters = static_cast<uint32_t>(args.after.size());
  for (const uint32_t id : args.after) {
    if (id >= kernel_.insns.size())
      return wrong("after", cat("instruction ", id, " as a producer"), cat("one below ", kernel_.insns.size()));
    kernel_.afters.push_back(id);
  }
  kernel_.insns.push_back(insn);
  return static_cast<uint32_t>(kernel_.insns.size() - 1);
}

Result<void> Trace::loop(std::optional<int64_t> iterations, std::optional<int64_t> reg, int core, bool while_nonzero) {
  file_ = {}, line_ = 0;
  TRY(check_core(core));
  if (iterations.has_value() == reg.has_value())
    return wrong("loops", "a loop with both or neither of trips and register", "one of them");
  if (while_nonzero && !reg) return wrong("loops", "a loop that repeats without a register", "a register to look at");
  if (iterations && (*iterations < 0 || *iterations > kIterationsMax))
    return wrong("loops", cat("a loop of ", *iterations, " iterations"), cat("0 to ", kIterationsMax));
  if (reg && (*reg < 0 || *reg >= kernel_.chip->sequencer.registers))
    return wrong("register", cat("register ", *reg), cat("0 to ", kernel_.chip->sequencer.registers - 1));
  arch::LoopNest& nest = loops_[static_cast<size_t>(core)];
  if (nest.depth >= arch::kLoopDepthMax)
    return wrong("loops", "one more loop", cat("at most ", arch::kLoopDepthMax, " inside each other"));
  const Operand o = iterations ? arch::immediate_operand(static_cast<double>(*iterations))
                               : arch::register_operand(static_cast<int>(*reg));
  arch::add_loop(kernel_, nest, o, while_nonzero, core);
  return {};
}

Result<void> Trace::end_loop(int core) {
  file_ = {}, line_ = 0;
  TRY(check_core(core));
  if (!loops_[static_cast<size_t>(core)].depth) return wrong("loops", "an end_loop", "a loop that is open");
  arch::add_end_loop(kernel_, loops_[static_cast<size_t>(core)], core);
  return {};
}

Result<void> Trace::depends(uint32_t consumer, std::span<const uint32_t> producers) {
  file_ = {}, line_ = 0;
  const auto& insns = kernel_.insns;
  if (consumer >= insns.size()) return wrong("depends", cat("instruction ", consumer), "one that emit() returned");
  for (const uint32_t p : producers) {
    if (p >= consumer)
      return wrong("depends", cat("instruction ", p, " as a producer of instruction ", consumer),
                   "a producer that was recorded before", "move the producer's call up");
    if (insns[p].core != insns[consumer].core)
      return wrong("depends", "a dependency between two cores", "both on one", "use core_barrier");
    depends_.emplace_back(consumer, p);
  }
  return {};
}

Result<arch::Kernel*> Trace::close() {
  file_ = {}, line_ = 0;
  if (closed_) return wrong("finish", "a second finish()", "one; make a new trace");
  for (const arch::LoopNest& nest : loops_)
    if (nest.depth) return wrong("loops", "a loop without end_loop", "every loop closed");
  closed_ = true;
  join_depends();
  return &kernel_;
}

// Puts the orders that came later beside those given with each call.
void Trace::join_depends() {
  if (depends_.empty()) return;
  std::stable_sort(depends_.begin(), depends_.end());
  std::vector<uint32_t> afters;
  size_t next = 0;
  for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
    KernelInsn& insn = kernel_.insns[w];
    const auto begin = static_cast<uint32_t>(afters.size());
    afters.insert(afters.end(), kernel_.afters.begin() + insn.after, kernel_.afters.begin() + insn.after + insn.afters);
    for (; next < depends_.size() && depends_[next].first == w; ++next) afters.push_back(depends_[next].second);
    insn.after = begin;
    insn.afters = static_cast<uint32_t>(afters.size()) - begin;
  }
  kernel_.afters = std::move(afters);
}

}  // namespace trine::front
