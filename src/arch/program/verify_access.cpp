// What an instruction's operands may touch: the access-pattern limits, ports, start partitions and bounds of the
// architecture guides (rules A1–A14 below, listed for people in docs/assembly.md). Assumes a checked structure.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "arch/program/verify.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr int64_t kCountMax = std::numeric_limits<uint16_t>::max();   // of one free dim
constexpr int64_t kStrideMax = std::numeric_limits<int16_t>::max();   // elements
constexpr int64_t kSbufFreeMax = 64 * 1024, kPsumFreeMax = 4 * 1024;  // elements per partition
constexpr int kIndexBitsMax = 32;

// Dtypes that need a feature. `moved_only`: no engine computes with it, DMA may still carry it.
struct DtypeRule {
  Dtype dtype;
  Feature needs;
  bool moved_only = false;
};
constexpr DtypeRule kDtypeRules[] = {
    {Dtype::f8e4m3, Feature::fp8},       {Dtype::f8e5m2, Feature::fp8},     {Dtype::f8e3m4, Feature::fp8},
    {Dtype::f8e4m3fn, Feature::fp8_ocp}, {Dtype::f8e8m0, Feature::mx},      {Dtype::f8e4m3fn_x4, Feature::mx},
    {Dtype::f8e5m2_x4, Feature::mx},     {Dtype::f4e2m1fn_x4, Feature::mx}, {Dtype::s64, Feature::base, true},
    {Dtype::u64, Feature::base, true},
};

}  // namespace

bool computes_with(const Chip& chip, Dtype dtype) {
  for (const DtypeRule& rule : kDtypeRules)
    if (rule.dtype == dtype) return !rule.moved_only && chip.has(rule.needs);
  return is_on_chip(dtype);
}

namespace {

// Elements from the tensor's start (of the partition, on chip) that the operand covers over all iterations.
struct Span {
  int64_t low = 0, high = 0;  // both inside
  bool known = true;          // false: a register or an index tile decides
};

Span span_of(const Program& p, const Operand& o, const LoopNest& loops) {
  const Pattern& a = p.patterns[o.pattern];
  Span s{o.offset, o.offset};
  const auto add = [&](int64_t reach) { (reach < 0 ? s.low : s.high) += reach; };
  for (int d = 0; d < a.rank; ++d) {
    const Dim& dim = a.dims[static_cast<size_t>(d)];
    add(dim.stride * (int64_t{dim.count} - 1));
  }
  add(a.partition_stride * (int64_t{a.partitions} - 1));
  for (size_t d = 0; d < static_cast<size_t>(loops.depth); ++d) {
    if (!a.step[d]) continue;
    if (loops.iterations[d] < 0) s.known = false;
    add(a.step[d] * std::max<int64_t>(loops.iterations[d] - 1, 0));
  }
  if (o.dynamic) s.known = false;
  return s;
}

class Access {
 public:
  Access(const Call& call, const LoopNest& loops, Findings& found)
      : call_(call), p_(call.program), loops_(loops), found_(found) {}

  void check(const OperandSlot& slot, const Operand& o) {
    slot_ = &slot;
    operand_ = &o;
    check_tile(o);
    if (!o.dynamic) return;
    const Dynamic& d = p_.dynamics[o.dynamic - 1];
    if (d.kind == DynamicKind::reg) return;
    check_index(o, d, p_.operands[d.index]);
  }

 private:
  Unit unit() const { return call_.info.row->unit; }
  const Chip& chip() const { return call_.chip; }

  template <class... T>
  void bad(Code code, const T&... parts) {
    found_.add(code, cat(call_.info.row->name, ": operand ", slot_->name, "=", describe(p_, *operand_), " ", parts...));
  }

  void check_tile(const Operand& o);
  void check_ports(const Tensor& t);
  void check_partitions(const Operand& o, const Tensor& t, const Pattern& a);
  void check_pattern(const Tensor& t, const Pattern& a);
  void check_bounds(const Operand& o, const Tensor& t, const Pattern& a);
  void check_bank(const Operand& o, const Tensor& t, const Pattern& a);
  void check_dtype(const Pattern& a);
  void check_index(const Operand& o, const Dynamic& d, const Operand& index);

  const Call& call_;
  const Program& p_;
  const LoopNest& loops_;
  Findings& found_;
  const OperandSlot* slot_ = nullptr;
  const Operand* operand_ = nullptr;
};

void Access::check_tile(const Operand& o) {
  const Tensor& t = p_.tensors[o.tensor];
  const Pattern& a = p_.patterns[o.pattern];
  const size_t before = found_.count();
  check_dtype(a);
  check_ports(t);
  if (t.space != Space::hbm) check_partitions(o, t, a);
  if (t.space != Space::hbm && unit() == Unit::engine) check_pattern(t, a);
  if (found_.count() == before) check_bounds(o, t, a);
  if (found_.count() == before && t.space == Space::psum && call_.engine == Engine::tensor && slot_->writes())
    check_bank(o, t, a);
}

// A1 whole bytes, A2 a dtype the chip computes with; DMA and collectives carry any, if they need not convert it.
void Access::check_dtype(const Pattern& a) {
  if (bits(a.dtype) % 8)
    return bad(Code::unsupported, "has ", bits(a.dtype),
               "-bit elements, which no address can reach; view them as u8 or use a packed dtype");
  if (unit() == Unit::control) return;
  bool same = unit() == Unit::queue || unit() == Unit::rendezvous;
  for (size_t i = 0; i < call_.info.slots.size() && same; ++i) {
    const Operand& other = call_.operand(static_cast<int>(i));
    same = other.kind != OperandKind::tile || p_.patterns[other.pattern].dtype == a.dtype;
  }
  if (same) return;
  for (const DtypeRule& rule : kDtypeRules) {
    if (rule.dtype != a.dtype) continue;
    if (rule.moved_only)
      bad(Code::unsupported, "is ", row(a.dtype).name,
          ", which no engine computes with; use 32 bits, or view it as pairs of u32");
    else if (!chip().has(rule.needs))
      bad(Code::unsupported, "is ", row(a.dtype).name, ", which needs `", feature_name(rule.needs), "`; ", chip().name,
          " lacks it");
  }
}

// A3 tensor reads SBUF and writes PSUM, A4 gpsimd has no PSUM port, A5 DMA has none either, A6 engines reach their own
// core's memory, A7 constants are not written.
void Access::check_ports(const Tensor& t) {
  if (slot_->writes() && t.kind == TensorKind::constant)
    bad(Code::invalid, "writes a constant; write to a tensor of its own");
  if (unit() == Unit::queue && t.space == Space::psum)
    bad(Code::invalid, "is in PSUM, which DMA cannot reach; copy it to SBUF on an engine first");
  if (unit() == Unit::queue) return;
  if (t.space != Space::hbm && t.core != call_.core)
    bad(Code::invalid, "is on core ", t.core, ", the stream runs on core ", call_.core, "; move it by DMA");
  if (unit() != Unit::engine) return;
  if (call_.engine == Engine::gpsimd && t.space == Space::psum)
    bad(Code::invalid, "is in PSUM, to which gpsimd has no port; use vector or scalar, or copy it to SBUF");
  if (call_.engine == Engine::tensor && !slot_->writes() && t.space != Space::sbuf)
    bad(Code::invalid, "is in ", name(t.space), "; the tensor engine reads SBUF only");
  if (call_.engine == Engine::tensor && slot_->writes() && t.space != Space::psum)
    bad(Code::invalid, "is in ", name(t.space), "; the tensor engine writes PSUM only");
}

// A8 inside the tensor's partitions, A9 start partition 0, a half or a quadrant by how many there are (engines).
void Access::check_partitions(const Operand& o, const Tensor& t, const Pattern& a) {
  if (o.partition + a.partitions > t.shape[0])
    return bad(Code::out_of_range, "covers partitions ", o.partition, " to ", o.partition + a.partitions - 1, " of ",
               t.name, ", which has ", t.shape[0]);
  if (unit() != Unit::engine) return;
  const int start = t.partition + o.partition;
  const int step = a.partitions > 64 ? 128 : a.partitions > 32 ? 64 : 32;
  // MX scales fill four rows of a quadrant, at 0, 4, 8 or 12 (doc: MXFP deep dive, packing scale values)
  const bool packed = call_.info.row->needs == Feature::mx && slot_->name.ends_with("_scale");
  if (start % step && !(packed && start % step <= 12 && start % 4 == 0))
    bad(Code::invalid, "starts at partition ", start, "; ", a.partitions, " partitions start at ",
        step == 128  ? "0"
        : step == 64 ? "0 or 64"
                     : "0, 32, 64 or 96",
        "; move the tensor or copy it by DMA");
}

// A10 counts of 16 bits and strides of 16 signed bits, A11 64K elements per partition in SBUF and 4K in PSUM.
void Access::check_pattern(const Tensor& t, const Pattern& a) {
  for (size_t d = 0; d < a.rank; ++d) {
    if (a.dims[d].count > kCountMax)
      return bad(Code::out_of_range, "has ", a.dims[d].count, " elements in free dim ", d, ", at most ", kCountMax,
                 "; split it");
    if (a.dims[d].stride > kStrideMax || a.dims[d].stride < -kStrideMax - 1)
      return bad(Code::out_of_range, "has stride ", a.dims[d].stride, " in free dim ", d,
                 ", expected a signed 16-bit number of elements");
  }
  const int64_t limit = t.space == Space::sbuf ? kSbufFreeMax : kPsumFreeMax;
  int64_t elements = 1;  // in PSUM a stride of 0 names the same ones again
  for (size_t d = 0; d < a.rank; ++d)
    if (a.dims[d].stride || t.space == Space::sbuf) elements *= a.dims[d].count;
  if (elements > limit)
    bad(Code::out_of_range, "has ", elements, " elements per partition, at most ", limit, " in ", name(t.space),
        "; split it");
}

// A12 inside the tensor over every iteration, and on its dtype's alignment.
void Access::check_bounds(const Operand& o, const Tensor& t, const Pattern& a) {
  const int64_t size = bits(a.dtype) / 8;
  if (t.address % size)
    return bad(Code::invalid, "lies at byte ", t.address, ", which is no multiple of its ", size, "-byte elements");
  const int64_t bytes = t.space == Space::hbm ? tensor_bytes(t) : bytes_per_partition(t);
  const int64_t elements = bytes / size;
  const Span s = span_of(p_, o, loops_);
  if (s.known && (s.low < 0 || s.high >= elements))
    return bad(Code::out_of_range, "covers elements ", s.low, " to ", s.high, " of ", t.name, ", which has ", elements,
               t.space == Space::hbm ? "" : " per partition", loops_.depth ? " (over all iterations)" : "",
               "; shorten the region or the loop");
}

// A13 one matmul's result stays inside one PSUM bank, unless the chip's matmul is wider than a bank.
void Access::check_bank(const Operand& o, const Tensor& t, const Pattern& a) {
  const int64_t bank = chip().psum.bank_bytes, size = bits(a.dtype) / 8;
  if (chip().tensor.moving_max * 4 > bank) return;
  const Span one = span_of(p_, o, {});
  const int64_t low = t.address + one.low * size, length = (one.high - one.low + 1) * size;
  const auto in_bank = [&](int64_t byte) { return (byte % bank + bank) % bank; };
  std::vector<int64_t> starts = {in_bank(low)};  // every address in a bank where an iteration begins
  for (size_t d = 0; d < static_cast<size_t>(loops_.depth); ++d) {
    const int64_t step = in_bank(a.step[d] * size);
    if (!step) continue;
    const int64_t cycle = bank / std::gcd(bank, step);
    const int64_t iterations = loops_.iterations[d] < 0 ? cycle : std::min(loops_.iterations[d], cycle);
    const size_t before = starts.size();
    for (size_t b = 0; b < before; ++b)
      for (int64_t k = 1; k < iterations; ++k) starts.push_back(in_bank(starts[b] + k * step));
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  }
  for (const int64_t b : starts)
    if (b + length > bank)
      return bad(Code::invalid, "covers ", length, " bytes from byte ", b, " of a PSUM bank of ", bank,
                 "; a matmul's result stays inside one bank: split it or start it on a bank");
}

// A14 index tiles: integers of up to 32 bits, one per row or per group.
void Access::check_index(const Operand& o, const Dynamic& d, const Operand& index) {
  const Pattern &a = p_.patterns[o.pattern], &i = p_.patterns[index.pattern];
  const bool rows = d.kind == DynamicKind::rows;
  const Feature needs = rows ? Feature::dma_indirect : Feature::indirect_free_gather;
  if (rows != (unit() == Unit::queue))
    return bad(Code::invalid,
               rows ? "gathers rows, which only DMA does" : "gathers along the free dim, which only engines do");
  if (!chip().has(needs))
    return bad(Code::unsupported, "needs `", feature_name(needs), "`, which ", chip().name, " lacks");
  if (!is_integer(i.dtype) || bits(i.dtype) > kIndexBitsMax || bits(i.dtype) % 8)
    return bad(Code::invalid, "has ", row(i.dtype).name, " indices, expected integers of 8 to 32 bits");
  if (rows && i.elements() < a.partitions)
    return bad(Code::invalid, "gathers ", a.partitions, " rows with ", i.elements(),
               " indices; give one index per row");
  if (!rows) {
    const int groups = call_.engine == Engine::tensor ? 32 : 16;
    if (slot_->writes()) return bad(Code::unsupported, "scatters along the free dim; only reads may be gathered");
    if (i.partitions != groups)
      return bad(Code::invalid, "has indices on ", i.partitions, " partitions, expected ", groups, " on this engine");
    if (a.row_elements() % i.elements())
      return bad(Code::invalid, "has ", a.row_elements(), " elements per partition for ", i.elements(),
                 " indices; expected a multiple");
  }
  const size_t before = found_.count();
  const OperandSlot slot{.name = slot_->name, .mode = Mode::read, .kinds = kSbuf | kHbm};
  Access inner(call_, loops_, found_);
  inner.slot_ = &slot;
  inner.operand_ = &index;
  const Tensor& t = p_.tensors[index.tensor];
  if (t.space == Space::psum) return bad(Code::invalid, "has its indices in PSUM, expected SBUF");
  if (t.space == Space::sbuf) inner.check_partitions(index, t, i);
  if (found_.count() == before) inner.check_bounds(index, t, i);
}

}  // namespace

void check_access(const Call& call, const LoopNest& loops, Findings& found) {
  Access access(call, loops, found);
  for (size_t s = 0; s < call.info.slots.size(); ++s) {
    const Operand& o = call.operand(static_cast<int>(s));
    if (o.kind == OperandKind::tile) access.check(call.info.slots[s], o);
    if (o.kind == OperandKind::reg && o.reg >= call.chip.sequencer.registers)
      found.add(Code::out_of_range, cat(call.info.row->name, ": operand ", call.info.slots[s].name, " is r", o.reg,
                                        "; ", call.chip.name, " has r0 to r", call.chip.sequencer.registers - 1));
  }
}

}  // namespace trine::arch
