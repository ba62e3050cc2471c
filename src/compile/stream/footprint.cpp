// Hulls, combs and cells; see footprint.h.
#include "compile/stream/footprint.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "arch/call.h"

namespace trine::compile {

using arch::Dim;

namespace {

struct Walk {  // of one operand: strides in bytes, largest last
  std::array<std::pair<int64_t, int64_t>, arch::kFreeDimsMax + arch::kLoopDepthMax + 1> dims;
  size_t rank = 0;
  void add(int64_t stride, int64_t count) {
    if (count > 1 && stride) dims[rank++] = {stride, count};
  }
};

Region whole(const arch::Tensor& t, const arch::Operand& o, const arch::Pattern& p) {
  Region r;
  const bool on_chip = t.space != arch::Space::hbm;
  r.low = on_chip ? t.address : 0;
  r.high = r.low + (on_chip ? arch::bytes_per_partition(t) : arch::tensor_bytes(t));
  r.first = on_chip ? t.partition + o.partition : 0;
  r.last = on_chip ? r.first + p.partitions : 1;
  return r;
}

}  // namespace

Region region_of(const arch::Program& p, const arch::Operand& o, const arch::LoopNest& loops) {
  const arch::Tensor& t = p.tensors[o.tensor];
  const arch::Pattern& a = p.patterns[o.pattern];
  const int64_t size = std::max(1, bits(a.dtype) / 8);
  Region r = whole(t, o, a);
  if (o.dynamic) return r;
  Walk walk;
  for (size_t d = 0; d < a.rank; ++d) walk.add(a.dims[d].stride * size, a.dims[d].count);
  if (t.space == arch::Space::hbm) walk.add(a.partition_stride * size, a.partitions);
  for (size_t d = 0; d < static_cast<size_t>(loops.depth); ++d) {
    if (a.step[d] && loops.iterations[d] < 0) return r;
    walk.add(a.step[d] * size, loops.iterations[d]);
  }
  int64_t low = r.low + o.offset * size, high = low;
  for (size_t d = 0; d < walk.rank; ++d) {
    auto& [stride, count] = walk.dims[d];
    (stride < 0 ? low : high) += stride * (count - 1);
    stride = std::abs(stride);
  }
  std::sort(walk.dims.begin(), walk.dims.begin() + static_cast<ptrdiff_t>(walk.rank));
  int64_t run = size;
  size_t d = 0;
  for (; d < walk.rank && walk.dims[d].first <= run; ++d) run += walk.dims[d].first * (walk.dims[d].second - 1);
  r.low = low;
  r.high = high + size;
  r.run = run;
  for (; d < walk.rank; ++d) r.pitch = std::gcd(r.pitch, walk.dims[d].first);
  if (r.run >= r.pitch) r.pitch = 0;
  r.shape = o.pattern;
  return r;
}

Touched::Touched(int64_t bytes, int cells_max, int64_t row_bytes) : lists_(1) {
  while (bytes / cell_bytes_ >= cells_max) cell_bytes_ *= 2;
  int64_t each = row_bytes / cell_bytes_;  // cells of a row
  while (each > 1 && row_bytes % each) --each;
  if (each) cell_bytes_ = row_bytes / each;
  cells_.resize(static_cast<size_t>((std::max<int64_t>(bytes, 1) - 1) / cell_bytes_) + 1);
  lists_[0].cells = static_cast<uint32_t>(cells_.size());
}

void Touched::cells_between(int64_t low, int64_t high, Ranges& out) const {
  const auto end = static_cast<int64_t>(cells_.size()) - 1;
  const auto cell = [&](int64_t byte) { return std::clamp<int64_t>(byte / cell_bytes_, 0, end); };
  Range range{cell(low), cell(high - 1)};
  if (!out.empty()) range.first = std::max(range.first, out.back().last + 1);
  if (range.first <= range.last) out.push_back(range);
}

void Touched::find_lists(const Range* begin, const Range* end) {
  lists_found_.clear();
  ++pass_;
  for (; begin != end; ++begin)
    for (int64_t c = begin->first; c <= begin->last; ++c) {
      const uint32_t id = cells_[static_cast<size_t>(c)];
      List& list = lists_[id];
      if (list.pass != pass_) {
        list.pass = pass_;
        list.here = 0;
        list.first = c;
        lists_found_.push_back(id);
      }
      ++list.here;
    }
}

uint32_t Touched::fresh() {
  if (spare_.empty()) {
    lists_.emplace_back();
    return static_cast<uint32_t>(lists_.size() - 1);
  }
  const uint32_t id = spare_.back();
  spare_.pop_back();
  return id;
}

uint32_t Touched::target(uint32_t id) {
  if (lists_[id].here == lists_[id].cells) return id;
  const uint32_t copy = fresh();
  lists_[copy].writes = lists_[id].writes;
  lists_[copy].reads = lists_[id].reads;
  lists_[copy].first = lists_[id].first;
  lists_[copy].cells = 0;
  return copy;
}

uint32_t Touched::settle(uint32_t id) {
  if (lone_ == kNone) lone_ = id;
  if (lone_ != id && !lists_[id].cells) spare_.push_back(id);
  return lone_;
}

void Touched::move(const Range* begin, const Range* end) {
  for (; begin != end; ++begin)
    for (int64_t c = begin->first; c <= begin->last; ++c) {
      uint32_t& cell = cells_[static_cast<size_t>(c)];
      const uint32_t from = cell;
      if (lists_[from].pass != pass_ || lists_[from].next == from) continue;
      cell = lists_[from].next;
      ++lists_[cell].cells;
      if (!--lists_[from].cells) spare_.push_back(from);
    }
}

bool Touched::covers_in_cell(const Region& a, const Region& b, int64_t cell) const {
  if (!a.dense()) return covers(a, b);
  Region part = b;
  part.low = std::max(b.low, cell * cell_bytes_);
  part.high = std::min(b.high, (cell + 1) * cell_bytes_);
  return covers(a, part);
}

}  // namespace trine::compile
