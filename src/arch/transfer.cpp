// Counting a transfer's descriptors in closed form; see transfer.h.
// estimate: how descriptors are cut and dealt is published only as "8 partitions to an engine" and "at most 64 KiB".
#include "arch/transfer.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "arch/row.h"

namespace trine::arch {

namespace {

// One side of a copy: every `run` elements its address jumps.
struct Side {
  int64_t run = 1;  // elements
  bool hbm = false;
  int64_t jump = 0;  // bytes from one run to the next
};

Side side_of(const Tile& t) {
  int64_t run = 1, jump = 0;
  bool whole = true;
  for (int d = t.pattern->rank - 1; d >= 0 && whole; --d) {
    const Dim& dim = t.pattern->dims[static_cast<size_t>(d)];
    if (dim.count == 1) continue;
    whole = dim.stride == run;
    (whole ? run : jump) = whole ? run * dim.count : dim.stride;
  }
  const bool hbm = t.space == Space::hbm;
  if (whole && hbm && !t.dynamic && (t.partitions == 1 || t.pattern->partition_stride == run)) run *= t.partitions;
  if (whole && t.partitions > 1) jump = t.pattern->partition_stride;
  return {run, hbm, std::abs(jump) * t.element_bytes()};
}

struct Count {
  int64_t descriptors = 0, strided = 0;
};

// Multiples of n strictly inside (begin, end).
int64_t multiples(int64_t begin, int64_t end, int64_t n) { return (end - 1) / n - begin / n; }

// Positions inside (begin, end) where a or b jumps.
int64_t jumps(int64_t begin, int64_t end, int64_t a, int64_t b) {
  const int64_t other = b / std::gcd(a, b);
  const int64_t both = a > end / other ? 0 : multiples(begin, end, a * other);
  return multiples(begin, end, a) + multiples(begin, end, b) - both;
}

// Elements [begin, end) of a copy, cut where either side jumps and after `longest` elements. Where the two runs are
// not multiples of each other the pieces differ in length and each counts as the shorter run.
Count count(const Side& a, const Side& b, int64_t begin, int64_t end, int64_t longest) {
  const int64_t piece = std::min({a.run, b.run, end - begin});
  Count c;
  c.descriptors = (1 + jumps(begin, end, a.run, b.run)) * ((piece + longest - 1) / longest);
  if (a.hbm && b.hbm)
    c.strided = jumps(begin, end, a.run, b.run);
  else if (a.hbm || b.hbm)
    c.strided = multiples(begin, end, a.hbm ? a.run : b.run);
  return c;
}

class Describer {
 public:
  Describer(const Chip& chip, const Tile& dst) : chip_(chip), dst_(dst) {
    (dst.space == Space::hbm ? out.hbm_write : out.sbuf_write) += dst.elements() * dst.element_bytes();
  }

  void add(const Tile& src, bool transposed) {
    (src.space == Space::hbm ? out.hbm_read : out.sbuf_read) += src.elements() * src.element_bytes();
    width_ = std::max(src.element_bytes(), dst_.element_bytes());
    const Side from = side_of(src), to = side_of(dst_);
    for (const Side& side : {from, to}) out.far |= side.hbm && side.jump >= chip_.dma.far_bytes;
    if (!src.on_chip() && !dst_.on_chip())
      deal_evenly(count(from, to, 0, src.elements(), longest_between_hbm(src.elements())), engines());
    else if (transposed)
      deal_evenly(transposed_rows(src, from), groups(dst_));
    else
      deal_rows(dst_.on_chip() ? dst_ : src, from, to);
  }

  Transfer out;

 private:
  int64_t engines() const { return chip_.dma.engines_per_core; }
  // Rows that become columns are dealt to the engines though they lie one after another: no one makes them all.
  Count transposed_rows(const Tile& src, const Side& from) const {
    Count c = count(from, from, 0, src.elements(), longest());
    c.descriptors = std::max(c.descriptors, std::min<int64_t>(src.partitions, engines()));
    return c;
  }
  int64_t longest() const { return std::max<int64_t>(1, chip_.dma.descriptor_bytes_max / width_); }
  // A long run between HBM tensors is cut so that every engine has some, in packets at least.
  int64_t longest_between_hbm(int64_t elements) const {
    const int64_t even = (elements + engines() - 1) / engines();
    return std::max<int64_t>(1, std::min(longest(), std::max(even, chip_.dma.packet_bytes / width_)));
  }
  // Groups of neighbouring partitions that go to different engines.
  int64_t groups(const Tile& t) const {
    const int64_t per = chip_.dma.partitions_per_engine;
    return std::min((t.partitions + per - 1) / per, engines());
  }

  void give(int64_t engine, int64_t bytes, const Count& c) {
    out.bytes += bytes;
    for (Transfer::Share& s : out.shares)
      if (s.engine == engine) {
        s.bytes += bytes;
        s.descriptors += c.descriptors;
        s.strided_descriptors += c.strided;
        return;
      }
    out.shares.push_back({static_cast<int>(engine), bytes, c.descriptors, c.strided});
  }

  // Partition p belongs to engine p / 8.
  void deal_rows(const Tile& rows, const Side& from, const Side& to) {
    const int64_t per = chip_.dma.partitions_per_engine;
    for (int64_t row = 0; row < rows.partitions; row += per) {
      const int64_t begin = row * rows.row_elements;
      const int64_t end = std::min<int64_t>(row + per, rows.partitions) * rows.row_elements;
      give((rows.partition + row) / per % engines(), (end - begin) * width_, count(from, to, begin, end, longest()));
    }
  }
  void deal_evenly(const Count& all, int64_t most) {
    const int64_t n = std::max<int64_t>(1, std::min(most, all.descriptors)), bytes = dst_.elements() * width_;
    const auto part = [n](int64_t whole, int64_t k) { return whole * (k + 1) / n - whole * k / n; };
    for (int64_t k = 0; k < n; ++k) give(k, part(bytes, k), {part(all.descriptors, k), part(all.strided, k)});
  }

  const Chip& chip_;
  const Tile dst_;
  int64_t width_ = 1;
};

}  // namespace

Transfer describe_transfer(const Chip& chip, const Call& call) {
  const uint16_t opcode = call.insn.opcode;
  const Tile dst = call.tile("dst");
  Describer d(chip, dst);
  bool on_chip_source = false;
  for (size_t s = 0; s < call.info.slots.size(); ++s) {
    const Operand& o = call.operand(static_cast<int>(s));
    if (!call.info.slots[s].reads() || o.kind != OperandKind::tile) continue;
    const Tile src = call.tile_of(o);
    on_chip_source |= src.on_chip();
    d.add(src, opcode == kOpDmaTranspose);
  }
  if (opcode == kOpDmaTranspose)
    d.out.rate_fraction = on_chip_source ? chip.dma.transpose_sbuf_fraction : chip.dma.transpose_load_fraction;
  if (opcode == kOpDmaCompute) d.out.rate_fraction = chip.dma.compute_fraction;
  return std::move(d.out);
}

}  // namespace trine::arch
