// The DMA rows: what a transfer does to memory. They sit in the issuing engine's stream and run on a queue; how long
// they take follows from arch/transfer.h and the queues (sim/core), so `cycles` is only the trigger.
#include <vector>

#include "arch/insns/lanes.h"
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

bool is_indirect(const Tile& t) { return t.dynamic && t.dynamic->kind == DynamicKind::rows; }

// One row whose index is out of bounds leaves its destination as it is, whichever side it is on.
bool row_missing(Core& c, const Tile& s, int row) {
  if (!is_indirect(s) || !c.row_skipped(s, row)) return false;
  if (c.oob == Oob::error) {
    std::vector<std::byte> unused(static_cast<size_t>(s.row_elements * s.element_bytes()));
    c.read_bytes(s, row, unused.data());  // for its fault
  }
  return true;
}

// Elements go over in pattern order, so the two sides may be cut into rows differently.
template <class T, class Read, class Write>
void copy_rows(Core& c, const Tile& d, const Tile& s, size_t source_width, Read read, Write write, size_t width) {
  if (d.partitions == s.partitions) {
    std::vector<T> row(static_cast<size_t>(s.row_elements) * source_width);
    for (int p = 0; p < s.partitions; ++p) {
      c.working_on("src");
      if (row_missing(c, s, p)) continue;
      read(s, p, row.data());
      c.working_on("dst");
      write(d, p, row.data());
    }
    return;
  }
  std::vector<T> all(static_cast<size_t>(s.elements()) * source_width);
  c.working_on("src");
  for (int p = 0; p < s.partitions; ++p)
    read(s, p, all.data() + static_cast<size_t>(p * s.row_elements) * source_width);
  c.working_on("dst");
  for (int p = 0; p < d.partitions; ++p) write(d, p, all.data() + static_cast<size_t>(p * d.row_elements) * width);
}

// Same dtype: bits as they are, any width. Otherwise through f32.
void copy(Core& c, const Call& i) {
  const OobScope scope(c, i.as<Oob>("oob"));
  const Tile d = i.tile("dst"), s = i.tile("src");
  if (d.dtype == s.dtype) {
    const size_t width = static_cast<size_t>(s.element_bytes());
    copy_rows<std::byte>(
        c, d, s, width, [&](const Tile& t, int p, std::byte* to) { c.read_bytes(t, p, to); },
        [&](const Tile& t, int p, const std::byte* from) { c.write_bytes(t, p, from); }, width);
  } else {
    copy_rows<float>(
        c, d, s, 1, [&](const Tile& t, int p, float* to) { c.read(t, p, to); },
        [&](const Tile& t, int p, const float* from) { c.write(t, p, from); }, 1);
  }
}

Cost trigger_cycles(const Chip& k, const Call&) { return {.cycles = static_cast<int64_t>(k.sequencer.control_cycles)}; }

Result<void> same_elements(const Call& i) {
  const Tile d = i.tile("dst"), s = i.tile("src");
  if (d.elements() != s.elements())
    return fail(Code::invalid,
                cat("dst has ", d.elements(), " elements and src ", s.elements(), "; a copy needs as many"));
  return {};
}

Result<void> copy_check(const Chip&, const Call& i) { return same_elements(i); }

constexpr Row kRows[] = {
    {.name = "dma_copy",
     .opcode = 0x80,
     .engines = kAnyEngine,
     .unit = Unit::queue,
     .operands = "dst:w:hbm|sbuf src:r:hbm|sbuf",
     .attrs = "queue:int=0 dge:dge=unknown oob:oob=error priority:int=0",
     .exec = copy,
     .cycles = trigger_cycles,
     .check = copy_check,
     .says = "dst = src, element by element in pattern order; a change of dtype goes through f32",
     .source = "estimate: the trigger is one control instruction; the transfer's own time is sim/core's",
     .label = "DMA_DIRECT2D"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> dma_rows() { return kRows; }

}  // namespace trine::arch
