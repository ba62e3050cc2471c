// What the rows share; see lanes.h. Messages name the operand, the rule and the fix.
#include "arch/insns/lanes.h"

#include <cstring>

#include "base/text.h"

namespace trine::arch {

namespace {

struct Extent {
  int64_t low = 0, high = 0;  // bytes inside the partition
};
Extent extent(const Tile& t) {
  if (t.dynamic) return {0, INT64_MAX};
  return {t.offset + t.low, t.offset + t.high};
}

bool same_elements(const Tile& a, const Tile& b) {
  if (a.dynamic || b.dynamic) return false;
  if (a.partition != b.partition || a.offset != b.offset || a.element_bytes() != b.element_bytes()) return false;
  return a.row_elements == b.row_elements && ((a.contiguous() && b.contiguous()) || a.pattern->dims == b.pattern->dims);
}

}  // namespace

bool clobbers(const Tile& dst, const Tile& src) {
  if (dst.space != src.space || dst.core != src.core || same_elements(dst, src)) return false;
  if (dst.partition >= src.partition + src.partitions || src.partition >= dst.partition + dst.partitions) return false;
  const Extent d = extent(dst), s = extent(src);
  return d.low < s.high && s.low < d.high;
}

Source::Source(Core& core, const Call& call, std::string_view slot, const Tile& dst)
    : tile(call.tile(slot)), core_(core), slot_(slot), copied_(clobbers(dst, tile)) {
  core_.set_slot(slot_);
  if (copied_) {
    values_.resize(static_cast<size_t>(tile.elements()));
    core_.read_all(tile, values_.data());
    return;
  }
  rows_ = core_.rows(tile, false);
  direct_ = lies_as_f32(tile, rows_);
  if (!direct_) values_.resize(static_cast<size_t>(tile.row_elements));
}

const float* Source::row(int p) {
  if (direct_) return reinterpret_cast<const float*>(rows_.at(p));
  if (copied_) return values_.data() + p * tile.row_elements;
  if (rows_) {
    core_.take(tile, rows_.at(p), values_.data());
    return values_.data();
  }
  core_.set_slot(slot_);
  return core_.view(tile, p, values_.data());
}

void copy_bytes(Core& c, const Tile& dst, std::string_view dst_slot, const Tile& src, std::string_view src_slot,
                bool apart) {
  if (apart && dst.dense && src.dense && dst.partitions == src.partitions && !dst.dynamic && !src.dynamic) {
    c.set_slot(src_slot);
    const Rows from = c.rows(src, false);
    c.set_slot(dst_slot);
    const Rows to = from ? c.rows(dst, true) : Rows{};
    for (int p = 0; to && p < dst.partitions; ++p) std::memmove(to.at(p), from.at(p), static_cast<size_t>(src.high));
    if (to) return;
  }
  std::vector<std::byte>& bytes = byte_room(static_cast<size_t>(src.elements() * src.element_bytes()));
  c.set_slot(src_slot);
  c.read_all_bytes(src, bytes.data());
  c.set_slot(dst_slot);
  c.write_all_bytes(dst, bytes.data());
}

std::vector<std::byte>& byte_room(size_t bytes) {
  thread_local std::vector<std::byte> room;
  room.resize(bytes);
  return room;
}

std::vector<uint32_t> read_all_bits(Core& c, const Call& i, std::string_view slot) {
  const Tile t = i.tile(slot);
  std::vector<uint32_t> out(static_cast<size_t>(t.elements()));
  c.set_slot(slot);
  c.read_all_bits(t, out.data());
  return out;
}

std::vector<int64_t> read_all_int(Core& c, const Call& i, std::string_view slot) {
  const Tile t = i.tile(slot);
  std::vector<int64_t> out(static_cast<size_t>(t.elements()));
  c.set_slot(slot);
  for (int p = 0; p < t.partitions; ++p) c.read_int(t, p, out.data() + p * t.row_elements);
  return out;
}

Scalars read_scalars(Core& c, const Call& i, std::string_view slot, float absent) {
  Scalars out;
  const Operand& o = i.operand(slot);
  if (o.kind != OperandKind::tile) {
    out.fill(o.kind == OperandKind::immediate ? static_cast<float>(o.immediate) : absent);
    return out;
  }
  const Tile t = i.tile_of(o);
  out.fill(absent);
  c.set_slot(slot);
  c.read_all(t, out.data());
  return out;
}

std::array<uint32_t, 128> read_scalar_bits(Core& c, const Call& i, std::string_view slot) {
  std::array<uint32_t, 128> out;
  const Operand& o = i.operand(slot);
  const bool whole = o.kind == OperandKind::immediate && std::abs(o.immediate) <= 0x1p32;
  out.fill(whole ? static_cast<uint32_t>(static_cast<int64_t>(o.immediate)) : 0);
  if (o.kind != OperandKind::tile) return out;
  const Tile t = i.tile_of(o);
  c.set_slot(slot);
  c.read_all_bits(t, out.data());
  return out;
}

Tile element_of(const Tile& t, int64_t at, Pattern& one) {
  one = {.dtype = t.dtype, .partitions = t.pattern->partitions};
  Tile e = t;
  e.pattern = &one;
  e.row_elements = 1;
  e.low = 0;
  e.high = t.element_bytes();
  e.dense = true;
  for (int d = t.pattern->rank - 1; d >= 0; --d) {
    const Dim& dim = t.pattern->dims[static_cast<size_t>(d)];
    e.offset += at % dim.count * dim.stride * t.element_bytes();
    at /= dim.count;
  }
  return e;
}

void write_element(Core& c, const Tile& t, int row, int64_t at, uint32_t bits) {
  Pattern one;
  c.write_bits(element_of(t, at, one), row, &bits);
}

static Result<void> same(const Call& i, std::initializer_list<std::string_view> slots, bool elements) {
  std::string_view first;
  for (const auto slot : slots) {
    if (!i.has(slot) || !i.is_tile(slot)) continue;
    if (first.empty()) {
      first = slot;
      continue;
    }
    const Tile a = i.tile(first), b = i.tile(slot);
    if (a.partitions != b.partitions)
      return fail(Code::invalid, cat(slot, " has ", b.partitions, " partitions and ", first, " has ", a.partitions,
                                     "; give both the same number"));
    if (elements && a.row_elements != b.row_elements)
      return fail(Code::invalid, cat(slot, " has ", b.row_elements, " elements per partition and ", first, " has ",
                                     a.row_elements, "; give both the same number"));
  }
  return {};
}

Result<void> same_lanes(const Call& i, std::initializer_list<std::string_view> slots) { return same(i, slots, false); }
Result<void> same_shape(const Call& i, std::initializer_list<std::string_view> slots) { return same(i, slots, true); }

Result<void> one_per_lane(const Call& i, std::string_view slot, std::string_view like) {
  if (!i.is_tile(slot)) return {};
  TRY(same_lanes(i, {like, slot}));
  const int64_t n = i.tile(slot).row_elements;
  if (n == 1) return {};
  return fail(Code::invalid,
              cat(slot, " has ", n, " elements per partition; it is one value per partition, so give it [",
                  i.tile(like).partitions, ", 1] or a constant"));
}

Result<void> not_both_psum(const Call& i, std::string_view a, std::string_view b) {
  if (!i.is_tile(a) || !i.is_tile(b) || i.tile(a).space != Space::psum || i.tile(b).space != Space::psum) return {};
  return fail(Code::invalid, cat(a, " and ", b, " both lie in PSUM, and only one of them may; copy one to SBUF first"));
}

Result<void> computable(const Call& i) {
  for (size_t s = 0; s < i.info.slots.size(); ++s) {
    const Operand& o = i.operand(static_cast<int>(s));
    if (o.kind != OperandKind::tile) continue;
    const Dtype d = i.tile_of(o).dtype;
    if (is_packed(d) || bits(d) < 8 || bits(d) > 32)
      return fail(Code::invalid, cat(i.info.slots[s].name, " is ", row(d).name,
                                     ", which no engine computes with; use a format of 8, 16 or 32 bits"));
  }
  return {};
}

Result<void> chip_has(const Chip& k, const Call& i, Feature f, std::string_view what) {
  if (k.has(f)) return {};
  return fail(Code::unsupported, cat(i.info.row->name, ": ", what, " needs a chip with ", feature_name(f), ", and ",
                                     k.name, " has it not"));
}

double interval_min(const Chip& k, Engine e) {
  switch (e) {
    case Engine::tensor:
      return k.tensor.interval_min_cycles;
    case Engine::scalar:
      return k.scalar.interval_min_cycles;
    case Engine::gpsimd:
      return k.gpsimd.interval_min_cycles;
    default:
      return k.vector.interval_min_cycles;
  }
}

int64_t innermost_stride_bytes(const Tile& t) {
  for (int d = t.pattern->rank - 1; d >= 0; --d) {
    const Dim& dim = t.pattern->dims[static_cast<size_t>(d)];
    if (dim.count > 1) return std::abs(dim.stride) * t.element_bytes();
  }
  return t.element_bytes();
}

bool innermost_contiguous(const Tile& t) { return innermost_stride_bytes(t) == t.element_bytes(); }

double stride_slowdown(const Chip& k, const Call& i) {
  for (size_t s = 0; s < i.info.slots.size(); ++s) {
    const Operand& o = i.operand(static_cast<int>(s));
    if (o.kind != OperandKind::tile) continue;
    const Tile t = i.tile_of(o);
    if (t.space == Space::sbuf && innermost_stride_bytes(t) > k.sbuf.stride_full_bytes) return k.sbuf.stride_factor;
  }
  return 1;
}

static double access_cycles(const Chip& k, Engine e) {
  return e == Engine::vector ? k.vector.access_cycles : e == Engine::scalar ? k.scalar.access_cycles : 0;
}

Cost interval(const Chip& k, const Call& i, double elements, bool fast) {
  double least = interval_min(k, i.engine);
  for (size_t s = 0; s < i.info.slots.size(); ++s) {
    const Operand& o = i.operand(static_cast<int>(s));
    if (o.dynamic && i.program.dynamics[o.dynamic - 1].kind == DynamicKind::reg)
      least = std::max(least, k.sequencer.dynamic_address_min_cycles);
  }
  const double cycles = std::max(least, elements * stride_slowdown(k, i) + access_cycles(k, i.engine));
  return {.cycles = static_cast<int64_t>(std::ceil(cycles)), .fast = fast};
}

bool half_width(const Chip& k, Dtype d) {
  if (d == Dtype::bf16 || d == Dtype::f16) return true;
  return k.has(Feature::fp8_fast) && is_floating(d) && bits(d) == 8;
}

double copy_speedup(const Chip& k, const Call& i, const Tile& dst, const Tile& src) {
  if (i.engine == Engine::scalar)
    return k.has(Feature::scalar_fast_modes) && half_width(k, dst.dtype) && half_width(k, src.dtype)
               ? k.scalar.fast_factor
               : 1;
  if (i.engine != Engine::vector || !k.has(Feature::vector_fast_modes)) return 1;
  if (!half_width(k, dst.dtype) || !half_width(k, src.dtype)) return 1;
  const bool sbuf = dst.space == Space::sbuf && src.space == Space::sbuf;
  const bool psum = dst.space == Space::psum && src.space == Space::psum;
  const bool runs = innermost_contiguous(dst) && innermost_contiguous(src);
  if (sbuf) return runs ? k.vector.fast_factor : k.vector.half_fast_factor;
  return runs && !psum ? k.vector.half_fast_factor : 1;
}

}  // namespace trine::arch
