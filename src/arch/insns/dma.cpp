// The DMA rows: what a transfer does to memory. They sit in the issuing engine's stream and run on a queue; how long
// they take follows from arch/transfer.h and the queues (sim/core), so `cycles` is only the trigger. Rules: dma.h.
#include "arch/insns/dma.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "arch/insns/alu.h"
#include "arch/insns/lanes.h"
#include "arch/transfer.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// The instruction's own out-of-bounds rule while it runs.
class OobScope {
 public:
  OobScope(Core& c, Oob oob) : core_(c), before_(c.oob) { c.oob = oob; }
  ~OobScope() { core_.oob = before_; }
  OobScope(const OobScope&) = delete;
  OobScope& operator=(const OobScope&) = delete;

 private:
  Core& core_;
  Oob before_;
};

// A side of a transfer, as rows of bytes or of f32.
struct Side {
  Core& core;
  const Tile tile;
  std::string_view slot;
  bool moves = false;  // its address depends on data, so a row may lie outside its tensor

  Side(Core& c, const Call& i, std::string_view name)
      : core(c), tile(i.tile(name)), slot(name), moves(i.operand(name).dynamic != 0) {}

  // A row outside its tensor is not transferred: neither side is touched. Reports it where that is an error.
  bool missing(int row) const {
    core.set_slot(slot);
    if (!moves || !core.row_skipped(tile, row)) return false;
    std::vector<std::byte> unused(static_cast<size_t>(tile.row_elements * tile.element_bytes()));
    if (core.oob == Oob::error) core.read_bytes(tile, row, unused.data());
    return true;
  }
  void read(int row, std::byte* to) const {
    core.set_slot(slot);
    core.read_bytes(tile, row, to);
  }
  void read(int row, float* to) const {
    core.set_slot(slot);
    core.read(tile, row, to);
  }
  void write(int row, const std::byte* from) const {
    core.set_slot(slot);
    core.write_bytes(tile, row, from);
  }
  void write(int row, const float* from) const {
    core.set_slot(slot);
    core.write(tile, row, from);
  }
};

// What a missing row leaves as it was.
void note_skips(const Side& d, const Side& s) {
  if ((d.moves || s.moves) && d.core.oob == Oob::skip) d.core.may_write(d.tile);
}

// Elements go over in pattern order, so the two sides may be cut into rows differently. `width` is of one element in T.
template <class T>
void copy_elements(const Side& d, const Side& s, size_t width) {
  note_skips(d, s);
  const size_t row = static_cast<size_t>(s.tile.row_elements) * width;
  if (d.tile.partitions == s.tile.partitions && (s.moves || d.moves)) {
    std::vector<T> values(row);
    for (int p = 0; p < s.tile.partitions; ++p) {
      if (s.missing(p) || d.missing(p)) continue;
      s.read(p, values.data());
      d.write(p, values.data());
    }
    return;
  }
  for (int p = 0; s.moves && p < s.tile.partitions; ++p)
    if (s.missing(p)) return;
  if constexpr (std::is_same_v<T, std::byte>) {
    const bool apart = s.core.memory(s.tile).bytes != d.core.memory(d.tile).bytes;
    return copy_bytes(d.core, d.tile, d.slot, s.tile, s.slot, apart);
  }
  std::vector<float> all(static_cast<size_t>(s.tile.elements()));
  s.core.set_slot(s.slot);
  s.core.read_all(s.tile, all.data());
  d.core.set_slot(d.slot);
  const Rows to = d.core.trap_nan ? Rows{} : d.core.rows(d.tile, true);
  const float* from = all.data();
  for (int p = 0; p < d.tile.partitions; ++p, from += d.tile.row_elements)
    if (to)
      d.core.put(d.tile, to.at(p), from);
    else
      d.core.write(d.tile, p, from);
}

// Same dtype: bits as they are, any width. Otherwise through f32.
void copy_tiles(Core& c, const Call& i) {
  const Side d(c, i, "dst"), s(c, i, "src");
  if (d.tile.dtype == s.tile.dtype)
    copy_elements<std::byte>(d, s, static_cast<size_t>(s.tile.element_bytes()));
  else
    copy_elements<float>(d, s, 1);
}

void copy(Core& c, const Call& i) {
  const OobScope scope(c, i.as<Oob>("oob"));
  copy_tiles(c, i);
}

void trigger(Core& c, const Call& i) {
  const OobScope scope(c, Oob::error);
  copy_tiles(c, i);
}

// Row r of a gathered source, by the index tile read column by column.
Tile gathered_row(Core& c, const Call& i, const Tile& s, int r) {
  Tile index = base_tile(i.program, i.program.operands[s.dynamic->index]);
  index.offset = s.index_offset;
  std::vector<int64_t> line(static_cast<size_t>(index.row_elements));
  c.read_int(index, r % index.partitions, line.data());
  Tile one = s;
  one.dynamic = nullptr;
  one.partitions = 1;
  one.offset += line[static_cast<size_t>(r / index.partitions)] * s.dynamic->scale * s.element_bytes();
  return one;
}

// [first, …middle, last] becomes [last, …middle, first]; a missing row leaves its elements of dst as they are.
void transpose(Core& c, const Call& i) {
  const OobScope scope(c, i.as<Oob>("oob"));
  const Tile s = i.tile("src"), d = i.tile("dst");
  const bool moves = i.operand("src").dynamic != 0;
  if (moves && c.oob == Oob::skip) c.may_write(d);
  const size_t width = static_cast<size_t>(s.element_bytes());
  const int64_t first = s.partitions, last = d.partitions, middle = s.row_elements / last;
  std::vector<std::byte> from(static_cast<size_t>(s.elements()) * width);
  std::vector<char> present(static_cast<size_t>(first), 1);
  c.set_slot("src");
  for (int a = 0; a < first; ++a) {
    const bool gathers = s.dynamic != nullptr;
    const Tile row = gathers ? gathered_row(c, i, s, a) : s;
    const int at = gathers ? 0 : a;
    present[static_cast<size_t>(a)] = !moves || !c.row_skipped(row, at);
    if (present[static_cast<size_t>(a)] || c.oob == Oob::error)
      c.read_bytes(row, at, from.data() + static_cast<size_t>(a * s.row_elements) * width);
  }
  const bool partial = std::find(present.begin(), present.end(), 0) != present.end();
  std::vector<std::byte> to(static_cast<size_t>(d.row_elements) * width);
  c.set_slot("dst");
  for (int z = 0; z < last; ++z) {
    if (partial) {
      const size_t before = c.faults.size();
      c.read_bytes(d, z, to.data());
      c.faults.resize(before);  // what stays as it is may be unwritten
    }
    for (int64_t m = 0; m < middle; ++m)
      for (int64_t a = 0; a < first; ++a)
        if (present[static_cast<size_t>(a)])
          std::copy_n(from.begin() +
                          static_cast<ptrdiff_t>((a * s.row_elements + m * last + z)) * static_cast<ptrdiff_t>(width),
                      width, to.begin() + static_cast<ptrdiff_t>((m * first + a)) * static_cast<ptrdiff_t>(width));
    c.write_bytes(d, z, to.data());
  }
}

// Rows that two sources both change would be lost; hardware asks for distinct ones.
void report_twice(Core& c, const Call& i, const Tile& d) {
  if (!d.dynamic) return;
  Tile index = base_tile(i.program, i.program.operands[d.dynamic->index]);
  index.offset = d.index_offset;
  std::vector<int64_t> line(static_cast<size_t>(index.row_elements));
  std::unordered_set<int64_t> seen;
  for (int p = 0, r = 0; p < index.partitions && r < d.partitions; ++p) {
    c.read_int(index, p, line.data());
    for (size_t e = 0; e < line.size() && r < d.partitions; ++e, ++r)
      if (!seen.insert(line[e]).second)
        return c.fault(FaultKind::race, "dst",
                       cat("row ", line[e], " is named twice; dma_compute needs unique indices"));
  }
}

void compute(Core& c, const Call& i) {
  const OobScope scope(c, i.as<Oob>("oob"));
  const Side d(c, i, "dst");
  const auto combine = alu_f32(i.as<Alu>("op")).tiles;
  c.set_slot("dst");
  report_twice(c, i, d.tile);
  std::vector<Side> sources;
  std::vector<float> scales;
  for (int s = 0; s < kComputeSources; ++s) {
    if (!i.has(kSourceNames[s])) continue;
    sources.emplace_back(c, i, kSourceNames[s]);
    scales.push_back(static_cast<float>(i.real(kScaleNames[s])));
  }
  for (const Side& s : sources) note_skips(d, s);
  std::vector<float> sum(static_cast<size_t>(d.tile.row_elements)), one(sum.size());
  for (int p = 0; p < d.tile.partitions; ++p) {
    bool missing = d.missing(p);
    for (const Side& s : sources) missing = missing || s.missing(p);
    if (missing) continue;
    for (size_t s = 0; s < sources.size(); ++s) {
      sources[s].read(p, one.data());
      for (float& v : one) v *= scales[s];
      if (s)
        combine(sum.data(), one.data(), sum.data(), d.tile.row_elements);
      else
        sum = one;
    }
    d.write(p, sum.data());
  }
}

constexpr std::string_view kTrigger =
    "estimate: the trigger is one control instruction; the transfer's own time is sim/core's";

constexpr Row transfer_row(Row row) {
  row.engines = kAnyEngine;
  row.unit = Unit::queue;
  row.cycles = trigger_cycles;
  row.source = kTrigger;
  return row;
}

constexpr Row kRows[] = {
    transfer_row({.name = "dma_copy",
                  .opcode = 0x80,
                  .operands = "dst:w:hbm|sbuf src:r:hbm|sbuf",
                  .attrs = "queue:int=0 dge:dge=unknown oob:oob=error priority:int=0",
                  .exec = copy,
                  .check = copy_check,
                  .summary = "dst = src, element by element in pattern order; a change of dtype goes through f32",
                  .label = "DMA_DIRECT2D"}),
    transfer_row({.name = "dma_transpose",
                  .opcode = kOpDmaTranspose,
                  .operands = "dst:w:sbuf src:r:hbm|sbuf",
                  .attrs = "axes:ints= queue:int=0 dge:dge=unknown oob:oob=error priority:int=0",
                  .exec = transpose,
                  .check = transpose_transfer_check,
                  .summary = "dst = src with its first and last dimension exchanged, bits as they are",
                  .label = "DMA_TRANSPOSE"}),
    transfer_row({.name = "dma_compute",
                  .opcode = kOpDmaCompute,
                  .operands = kComputeOperands,
                  .attrs = kComputeAttrs,
                  .exec = compute,
                  .check = compute_check,
                  .summary = "dst = the sum, max or min of the sources, each times its scale, in f32",
                  .label = "DMA_COMPUTE"}),
    transfer_row({.name = "dma_trigger",
                  .opcode = 0x83,
                  .operands = "dst:w:hbm|sbuf src:r:hbm|sbuf",
                  .attrs = "queue:int=0",
                  .exec = trigger,
                  .check = trigger_check,
                  .summary = "starts a ring of prebuilt descriptors: dst = src, bits as they are",
                  .label = "PSEUDO_DMA_TRIGGER"}),
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> dma_rows() { return kRows; }

}  // namespace trine::arch
