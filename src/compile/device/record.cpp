// Recording; see record.h.
#include "compile/device/record.h"

#include <bit>

#include "arch/program/record.h"
#include "base/stop.h"
#include "base/text.h"

namespace trine::compile::device {

using arch::Operand;

int64_t count_of(const Axes& axes) {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.count;
  return n;
}

Axes collapse(const Axes& axes) {
  Axes out;
  for (const Axis& a : axes) {
    if (a.count == 1) continue;
    if (!out.empty() && out.back().stride == a.stride * a.count)
      out.back() = {a.stride, out.back().count * a.count};
    else
      out.push_back(a);
  }
  if (out.empty()) out.push_back({1, 1});
  return out;
}

Recorder::Recorder(std::string name, const arch::Chip& chip, size_t insns_max) : insns_max_(insns_max) {
  kernel_.chip = &chip;
  kernel_.program().name = std::move(name);
  kernel_.program().chip = chip.name;
  kernel_.program().cores = 1;
}

View Recorder::on_chip(arch::Space space, Dtype dtype, int64_t partitions, int64_t columns, std::string_view name) {
  if (error_) return {.dtype = dtype, .partitions = int(partitions), .axes = {{1, columns}}};  // of no use any more
  arch::Tensor t;
  t.name = cat(name, ".", names_++);
  t.space = space;
  t.dtype = dtype;
  t.shape = {partitions, columns};
  // Nobody asks for it by name, and its address is not known yet: the builder need not hear of it.
  const auto tensor = uint32_t(kernel_.program().tensors.size());
  kernel_.program().tensors.push_back(std::move(t));
  kernel_.origins.push_back({false, line_});
  return {.tensor = tensor, .dtype = dtype, .partitions = int(partitions), .axes = {{1, columns}}};
}

uint32_t Recorder::hbm(std::string_view name, Dtype dtype, std::vector<int64_t> shape, arch::TensorKind kind,
                       std::span<const std::byte> data) {
  arch::Tensor t;
  t.name = std::string(name);
  if (t.name.empty()) t.name = cat("m.", names_++);
  while (kernel_.builder.find_tensor(t.name) >= 0) t.name += "_";
  t.space = arch::Space::hbm;
  t.dtype = dtype;
  t.kind = kind;
  t.shape = shape.empty() ? std::vector<int64_t>{1} : std::move(shape);
  t.address = kernel_.builder.allocator.next(t.space, 0);
  const uint32_t tensor = kind == arch::TensorKind::constant ? kernel_.builder.add_constant(std::move(t), data)
                                                             : kernel_.builder.add_tensor(std::move(t));
  kernel_.origins.push_back({false, line_});
  return tensor;
}

View Recorder::found(View v) {
  const auto where = elsewhere_.find(v.tensor);
  if (where == elsewhere_.end()) return v;
  const auto& [tensor, each, dynamic] = where->second;
  int64_t last = v.offset + (v.partitions - 1) * v.row_stride;
  for (const Axis& a : v.axes) last += (a.count - 1) * a.stride;
  if (last / each != v.offset / each) fail_with(fail(Code::internal, "a transfer of rows that do not lie together"));
  v.tensor = tensor;
  v.dynamic = dynamic[size_t(v.offset / each)];
  v.offset %= each;
  return v;
}

Operand Recorder::operand(const Source& source) {
  if (source.is_number()) return arch::immediate_operand(source.number);
  if (source.reg) return arch::register_operand(source.reg->number);
  const std::optional<View> moved = elsewhere_.empty() ? std::nullopt : std::optional(found(source.view));
  const View& v = moved ? *moved : source.view;
  const Axes axes = collapse(v.axes);
  arch::Pattern p;
  p.dtype = v.dtype;
  p.partitions = uint16_t(v.partitions);
  p.partition_stride = v.row_stride;
  if (axes.size() > arch::kFreeDimsMax)
    fail_with(fail(Code::internal, cat("a view of ", axes.size(), " free dims; the chip walks ", arch::kFreeDimsMax)));
  p.rank = uint8_t(std::min<size_t>(axes.size(), arch::kFreeDimsMax));
  for (size_t d = 0; d < p.rank; ++d) p.dims[d] = {axes[d].stride, uint32_t(axes[d].count)};
  if (v.step) p.step[size_t(nest_.depth - 1)] = v.step;
  return kernel_.builder.tile(v.tensor, p, v.offset, v.partition, v.dynamic);
}

uint32_t Recorder::by_register(Register r, int64_t scale) {
  return kernel_.builder.dynamic({arch::DynamicKind::reg, uint8_t(r.number), 0, scale});
}
uint32_t Recorder::by_rows(const View& index, int64_t scale) {
  return kernel_.builder.dynamic(arch::DynamicKind::rows, operand(index), scale);
}

void Recorder::loop(const Source& iterations, bool repeats) {
  if (nest_.depth >= arch::kLoopDepthMax)
    return fail_with(fail(Code::unsupported, cat("more than ", arch::kLoopDepthMax, " loops inside each other")));
  arch::add_loop(kernel_, nest_, operand(iterations), repeats);
  around_.push_back(constant_rows_);
}
void Recorder::end_loop() {
  if (nest_.depth == 0) return;
  arch::add_end_loop(kernel_, nest_);
  constant_rows_ = std::move(around_.back());
  around_.pop_back();
}

int64_t Recorder::encoded(const arch::RowInfo& info, const arch::AttrSlot& slot,
                          const std::variant<int64_t, double, std::string_view>& value) {
  if (const auto* real = std::get_if<double>(&value)) return std::bit_cast<int64_t>(*real);
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  const std::string_view text = std::get<std::string_view>(value);
  for (size_t i = 0; slot.set && i < slot.set->members.size(); ++i)
    if (slot.set->members[i] == text) return int64_t(i);
  fail_with(fail(Code::internal, cat(info.row->name, ": attribute ", slot.name, " cannot be `", text, "`")));
  return 0;
}

void Recorder::emit(std::string_view row, Slots slots, Settings settings, arch::EngineMask engines) {
  if (error_) return;
  stop_point();
  if (kernel_.insns.size() >= insns_max_)
    return fail_with(
        fail(Code::out_of_range, cat("more than ", with_commas(int64_t(insns_max_)), " instructions in one program")));
  const arch::RowInfo* const info = arch::row_by_name(row);
  CHECK(info, "a row of the machine");
  arch::KernelInsn insn;
  insn.info = info;
  insn.line = line_;
  // Operands and attributes in the order of the row's slots; what is not given has its default.
  auto& pool = kernel_.program().operands;
  insn.operand = uint32_t(pool.size());
  pool.resize(pool.size() + info->slots.size());
  for (const auto& [slot, source] : slots) pool[insn.operand + size_t(info->slot(slot))] = operand(source);
  std::vector<int64_t> attrs;
  attrs.reserve(info->attrs.size());
  for (const arch::AttrSlot& slot : info->attrs) attrs.push_back(slot.initial);
  for (const auto& [name, value] : settings) {
    const size_t at = size_t(info->attr(name));
    attrs[at] = encoded(*info, info->attrs[at], value);
  }
  insn.attr = kernel_.attr_block(attrs);
  // Every engine that may take it is noted: the scheduler chooses.
  arch::EngineMask open = arch::open_engines(insn);
  if (engines) open &= engines;
  const auto legal = arch::legal_engines(kernel_, insn, open, nest_);
  if (!legal) {
    Error first = legal.error();
    first.message = cat(row, ": ", first.message);
    return fail_with(std::move(first));
  }
  insn.engines = *legal;
  kernel_.insns.push_back(insn);
  const arch::Chip& k = chip();
  // A running estimate of how busy engines are, for scalar_is_free() and gpsimd_is_free().
  const double columns = double(slots.size() > 1 ? (slots.begin() + 1)->second.view.columns() : 1);
  const bool fast = k.vector.fast_factor > 1 && bytes(slots.begin()->second.view.dtype) == 2;
  // What either takes is Vector's where they share a port: the scheduler leaves it there.
  const bool either = insn.engines == (arch::kVector | arch::kGpsimd);
  const bool shared = k.has(arch::Feature::shared_ports);
  if (insn.engines == arch::kVector || (either && shared))
    busy_vector_ += (k.vector.interval_min_cycles + columns / (fast ? 2 : 1)) / k.vector.clock_ghz;
  if (insn.engines == arch::kGpsimd || (either && !shared))
    busy_gpsimd_ += (k.vector.interval_min_cycles + columns) / k.gpsimd.clock_ghz;
  if (insn.engines == arch::kScalar) busy_scalar_ += (k.scalar.interval_min_cycles + columns) / k.scalar.clock_ghz;
}

View Recorder::constant_row(double number, Dtype dtype) {
  auto [found, fresh] = constant_rows_.try_emplace({dtype, std::bit_cast<uint64_t>(number)});
  if (fresh) {
    found->second = sbuf(dtype, chip().partitions, 1, "number");
    emit("memset", {{"dst", found->second}}, {{"value", number}});
  }
  return found->second;
}

void Recorder::emit_iota(const View& dst, const std::vector<int64_t>& pattern, int64_t offset, int64_t multiplier) {
  emit("iota", {{"dst", dst}},
       {{"pattern", kernel_.builder.list(pattern)}, {"offset", offset}, {"channel_multiplier", multiplier}});
}

}  // namespace trine::compile::device
