// Pools and placement of a growing Program; see builder.h.
#include "arch/program/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/result.h"
#include "base/stop.h"

namespace trine::arch {

namespace {

constexpr int64_t kHbmStep = 256, kPsumStep = 2048, kSbufStep = 64;  // bytes; see Placer
constexpr size_t kDataAlign = 64;                                    // of constants, so that a map can be used as is

// A key is the value's bytes, field by field: padding never takes part.
template <class... T>
std::string key_of(const T&... fields) {
  std::string key;
  key.reserve((sizeof fields + ...) + 1);  // and the pool's letter
  (key.append(reinterpret_cast<const char*>(&fields), sizeof fields), ...);
  return key;
}

double plain_nan(double v) { return std::isnan(v) ? std::numeric_limits<double>::quiet_NaN() : v; }

std::string key_of_operand(const Operand& o) {
  return key_of(o.kind, o.partition, o.reg, o.tensor, o.pattern, o.dynamic, o.offset,
                std::bit_cast<int64_t>(o.immediate));
}

std::string key_of_pattern(const Pattern& p) {
  std::array<int64_t, 2 * kFreeDimsMax> dims;
  for (size_t d = 0; d < kFreeDimsMax; ++d) dims[2 * d] = p.dims[d].stride, dims[2 * d + 1] = p.dims[d].count;
  return key_of(p.dtype, p.rank, p.partitions, p.partition_stride, p.step, dims);
}

}  // namespace

std::optional<Pattern> whole_pattern(const Tensor& t, Dtype view) {
  Pattern p;
  p.dtype = view;
  std::vector<int64_t> shape = t.shape;
  if (t.space != Space::hbm && shape.empty()) return {};
  if (view != t.dtype) {
    if (shape.empty() || (t.space != Space::hbm && shape.size() < 2)) return {};
    int64_t row_bits = 0;
    if (__builtin_mul_overflow(shape.back(), bits(t.dtype), &row_bits) || row_bits % bits(view)) return {};
    shape.back() = row_bits / bits(view);
  }
  const bool rows = t.space != Space::hbm || shape.size() >= 2;
  if (rows) {
    if (shape[0] < 1 || shape[0] > std::numeric_limits<uint16_t>::max()) return {};
    p.partitions = static_cast<uint16_t>(shape[0]);
    shape.erase(shape.begin());
  }
  if (shape.size() > kFreeDimsMax) return {};
  p.rank = static_cast<uint8_t>(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 1 || shape[i] > std::numeric_limits<uint32_t>::max()) return {};
    p.dims[i] = {stride, static_cast<uint32_t>(shape[i])};
    if (__builtin_mul_overflow(stride, shape[i], &stride)) return {};
  }
  if (rows && t.space == Space::hbm) p.partition_stride = stride;
  return p;
}

bool size_fits(const Tensor& t) {
  constexpr int64_t kBitsMax = int64_t{8} << 46;
  int64_t n = bits(t.dtype), lower = n;  // lower: as if no dim were zero, so that products of parts fit too
  for (int64_t d : t.shape) {
    if (d < 0 || __builtin_mul_overflow(n, d, &n) || __builtin_mul_overflow(lower, std::max<int64_t>(d, 1), &lower))
      return false;
  }
  return lower <= kBitsMax;
}

int64_t BumpAllocator::next(Space space, int core) const {
  const auto it = end_.find({space, space == Space::hbm ? 0 : core});
  return it == end_.end() ? 0 : it->second;
}

void BumpAllocator::taken(const Tensor& t) {
  const int64_t step = t.space == Space::hbm ? kHbmStep : t.space == Space::psum ? kPsumStep : kSbufStep;
  int64_t end = t.space == Space::hbm ? tensor_bytes(t) : bytes_per_partition(t);
  if (__builtin_add_overflow(end, t.address, &end) || __builtin_add_overflow(end, step - 1, &end)) return;
  int64_t& last = end_[{t.space, t.space == Space::hbm ? 0 : t.core}];
  last = std::max(last, end / step * step);
}

Draft::Draft(const RowInfo& row) : info(&row), operands(row.slots.size()) {
  for (const AttrSlot& a : row.attrs) attrs.push_back(a.initial);
}

Draft& Draft::set(std::string_view slot, const Operand& o) {
  const int i = info->slot(slot);
  CHECK(i >= 0, "a slot that the row declares");
  operands[static_cast<size_t>(i)] = o;
  return *this;
}

Draft& Draft::set_attr(std::string_view name, int64_t encoded) {
  const int i = info->attr(name);
  CHECK(i >= 0, "an attribute that the row declares");
  attrs[static_cast<size_t>(i)] = encoded;
  return *this;
}

Draft& Draft::set_real(std::string_view name, double v) { return set_attr(name, std::bit_cast<int64_t>(plain_nan(v))); }

Operand immediate_operand(double v) {
  Operand o;
  o.kind = OperandKind::immediate;
  o.immediate = plain_nan(v);
  return o;
}

Operand register_operand(int number) {
  Operand o;
  o.kind = OperandKind::reg;
  o.reg = static_cast<uint8_t>(number);
  return o;
}

Builder::Builder(std::string name) { program_.name = std::move(name); }

template <class F>
uint32_t Builder::intern(char pool, std::string key, F add) {
  key += pool;
  const auto [it, fresh] = pooled_.try_emplace(std::move(key), 0);
  if (fresh) it->second = add();
  return it->second;
}

uint32_t Builder::add_tensor(Tensor t) {
  const auto index = static_cast<uint32_t>(program_.tensors.size());
  allocator.taken(t);
  tensors_.try_emplace(t.name, index);
  program_.tensors.push_back(std::move(t));
  return index;
}

uint32_t Builder::add_constant(Tensor t, std::span<const std::byte> bytes) {
  t.kind = TensorKind::constant;
  if (!bytes.empty()) {
    t.data_offset = program_.data.append(bytes, kDataAlign);
    t.data_bytes = bytes.size();
  }
  return add_tensor(std::move(t));
}

int Builder::find_tensor(std::string_view name) const {
  const auto it = tensors_.find(std::string(name));
  return it == tensors_.end() ? -1 : static_cast<int>(it->second);
}

Operand Builder::tile(uint32_t tensor, const Pattern& pattern, int64_t offset, int partition, uint32_t dynamic) {
  Operand o;
  o.kind = OperandKind::tile;
  o.partition = static_cast<uint8_t>(partition);
  o.tensor = tensor;
  o.dynamic = dynamic;
  o.offset = offset;
  o.pattern = intern('p', key_of_pattern(pattern), [&] {
    program_.patterns.push_back(pattern);
    return static_cast<uint32_t>(program_.patterns.size() - 1);
  });
  return o;
}

uint32_t Builder::dynamic(const Dynamic& d) {
  return intern('d', key_of(d.kind, d.reg, d.index, d.scale), [&] {
    program_.dynamics.push_back(d);
    return static_cast<uint32_t>(program_.dynamics.size());
  });
}

uint32_t Builder::dynamic(DynamicKind kind, const Operand& index, int64_t scale) {
  return dynamic({.kind = kind, .index = operand_block({&index, 1}), .scale = scale});
}

int64_t Builder::list(std::span<const int64_t> values) {
  if (values.empty()) return -1;
  std::string key(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return intern('l', std::move(key), [&] {
    program_.lists.emplace_back(values.begin(), values.end());
    return static_cast<uint32_t>(program_.lists.size() - 1);
  });
}

int64_t Builder::string(std::string_view s) {
  if (s.empty()) return -1;
  return intern('s', std::string(s), [&] {
    program_.strings.emplace_back(s);
    return static_cast<uint32_t>(program_.strings.size() - 1);
  });
}

uint32_t Builder::steps(const std::array<int64_t, kLoopDepthMax>& steps) {
  if (steps == std::array<int64_t, kLoopDepthMax>{}) return 0;
  return intern('w', key_of(steps), [&] {
    program_.steps.push_back(steps);
    return static_cast<uint32_t>(program_.steps.size() - 1);
  });
}

uint32_t Builder::line(std::string_view file, uint32_t number) {
  if (file.empty()) return 0;
  const auto name = static_cast<uint32_t>(string(file));
  return intern('@', key_of(name, number), [&] {
    program_.lines.push_back({name, number});
    return static_cast<uint32_t>(program_.lines.size());
  });
}

size_t Builder::stream(int core, Engine engine) {
  auto& all = program_.streams;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].core == core && all[i].engine == engine) return i;
  all.push_back({static_cast<uint8_t>(core), engine, {}});
  return all.size() - 1;
}

uint32_t Builder::operand_block(std::span<const Operand> operands) {
  if (operands.empty()) return 0;
  std::string key;
  for (const Operand& o : operands) key += key_of_operand(o);
  return intern('o', std::move(key), [&] {
    program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
    return static_cast<uint32_t>(program_.operands.size() - operands.size());
  });
}

uint32_t Builder::attr_block(std::span<const int64_t> attrs) {
  if (attrs.empty()) return 0;
  std::string key(reinterpret_cast<const char*>(attrs.data()), attrs.size_bytes());
  return intern('a', std::move(key), [&] {
    program_.attrs.insert(program_.attrs.end(), attrs.begin(), attrs.end());
    return static_cast<uint32_t>(program_.attrs.size() - attrs.size());
  });
}

uint32_t Builder::emit(size_t stream, const Draft& d) {
  stop_point();
  Insn insn;
  insn.opcode = d.info->row->opcode;
  insn.operand = operand_block(d.operands);
  insn.attr = attr_block(d.attrs);
  insn.waits = static_cast<uint8_t>(d.waits.size());
  insn.updates = static_cast<uint8_t>(d.updates.size());
  std::string waits, updates;
  for (const Wait& w : d.waits) waits += key_of(w.semaphore, w.op, w.steps, w.value);
  for (const Update& u : d.updates) updates += key_of(u.semaphore, u.op, u.value);
  if (insn.waits)
    insn.wait = intern('W', std::move(waits), [&] {
      program_.waits.insert(program_.waits.end(), d.waits.begin(), d.waits.end());
      return static_cast<uint32_t>(program_.waits.size() - d.waits.size());
    });
  if (insn.updates)
    insn.update = intern('U', std::move(updates), [&] {
      program_.updates.insert(program_.updates.end(), d.updates.begin(), d.updates.end());
      return static_cast<uint32_t>(program_.updates.size() - d.updates.size());
    });
  insn.line = d.line;
  auto& insns = program_.streams[stream].insns;
  insns.push_back(insn);
  return static_cast<uint32_t>(insns.size() - 1);
}

}  // namespace trine::arch
