// Hulls, combs and cells; see region.h.
#include "compile/stream/region.h"

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
    if (a.step[d] && loops.trips[d] < 0) return r;
    walk.add(a.step[d] * size, loops.trips[d]);
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

bool overlap(const Region& a, const Region& b) {
  if (a.low >= b.high || b.low >= a.high || a.first >= b.last || b.first >= a.last) return false;
  const int64_t pitch = a.pitch == b.pitch ? a.pitch : std::gcd(a.pitch, b.pitch);
  if (!pitch) return true;
  const int64_t a_run = a.dense() ? a.high - a.low : a.run, b_run = b.dense() ? b.high - b.low : b.run;
  const int64_t apart = ((b.low - a.low) % pitch + pitch) % pitch;
  return apart < a_run || apart + b_run > pitch;
}

bool covers(const Region& a, const Region& b) {
  if (a.first > b.first || a.last < b.last || a.low > b.low || a.high < b.high) return false;
  return a.dense() || (a.low == b.low && a.high == b.high && a.shape == b.shape);
}

Touched::Touched(int64_t bytes, int cells_max) {
  shift_ = 9;
  while ((bytes >> shift_) >= cells_max) ++shift_;
  cells_.resize(static_cast<size_t>((std::max<int64_t>(bytes, 1) - 1) >> shift_) + 1);
}

void Touched::cells_between(int64_t low, int64_t high, std::vector<int64_t>& out) const {
  const auto last = static_cast<int64_t>(cells_.size()) - 1;
  const int64_t from = std::clamp<int64_t>(low >> shift_, 0, last);
  const int64_t to = std::clamp<int64_t>((high - 1) >> shift_, 0, last);
  for (int64_t c = from; c <= to; ++c)
    if (out.empty() || out.back() < c) out.push_back(c);
}

bool Touched::covers_in_cell(const Region& a, const Region& b, int64_t cell) const {
  if (!a.dense()) return covers(a, b);
  Region part = b;
  part.low = std::max(b.low, cell << shift_);
  part.high = std::min(b.high, (cell + 1) << shift_);
  return covers(a, part);
}

}  // namespace trine::compile
