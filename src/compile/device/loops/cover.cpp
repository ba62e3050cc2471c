// Which elements between those of a read are worth loading; see cover.h.
#include "compile/device/loops/cover.h"

#include "compile/thresholds.h"

#include <cstdlib>

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::cover;

bool moves(const Axis& a) { return a.stride != 0 && a.count > 1; }

}  // namespace

Cover cover_of(const Axes& free, int64_t span, int bytes) {
  std::vector<size_t> order;
  for (size_t i = 0; i < free.size(); ++i)
    if (moves(free[i])) order.push_back(i);
  const auto far = [&](size_t i) { return std::abs(free[i].stride); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return far(a) < far(b); });
  Cover out{.tile = free};
  for (Axis& a : out.tile)
    if (!moves(a)) a.stride = 0;
  int64_t length = 1 + span;
  size_t near = 0;
  for (; near < order.size(); ++near) {
    const Axis& a = free[order[near]];
    const int64_t longer = (a.count - 1) * far(order[near]) + length;
    if (longer * bytes > a.count * (length * bytes + tuned::kDescriptorBytes)) break;
    if (a.stride < 0) out.first += longer - length;
    length = longer;
  }
  out.back = out.first;
  out.memory.push_back({1, length});
  for (int64_t pitch = length; near < order.size(); ++near) {
    const Axis& a = free[order[near]];
    out.memory.insert(out.memory.begin(), {far(order[near]), a.count});
    out.tile[order[near]].stride = a.stride < 0 ? -pitch : pitch;
    if (a.stride < 0) out.back -= (a.count - 1) * a.stride, out.first += (a.count - 1) * pitch;
    pitch *= a.count;
  }
  return out;
}

bool pays(const Cover& cover, const Axes& free) {
  Axes alone;
  for (const Axis& a : free)
    if (moves(a)) alone.push_back(a);
  return collapse(cover.memory) != collapse(alone) && collapse(cover.tile).size() <= size_t(arch::kFreeDimsMax);
}

void Reads::add(const Memory& memory, const std::vector<int64_t>& strides, int64_t start) {
  std::vector<int64_t>& all = starts_[{&memory, strides}];
  const auto at = std::lower_bound(all.begin(), all.end(), start);
  if (at == all.end() || *at != start) all.insert(at, start);
}

std::pair<int64_t, int64_t> Reads::together(const Memory& memory, const std::vector<int64_t>& strides, int64_t start,
                                            const Axes& free) const {
  const auto found = starts_.find({&memory, strides});
  if (found == starts_.end()) return {start, start};
  const int size = bytes(memory.dtype);
  const int64_t each = cover_of(free, 0, size).columns();
  std::pair<int64_t, int64_t> run = {found->second.front(), found->second.front()};
  for (int64_t next : found->second) {
    const int64_t one = cover_of(free, next - run.first, size).columns();
    const int64_t two = cover_of(free, run.second - run.first, size).columns() + each;
    if (one <= two) {
      run.second = next;
    } else if (start <= run.second) {
      break;
    } else {
      run = {next, next};
    }
  }
  return run;
}

}  // namespace trine::compile::device
