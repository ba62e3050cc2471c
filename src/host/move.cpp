// Copies by rows: inner dims that lie evenly on both sides are one memcpy; large boxes go to the pool.
#include "host/move.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/pool.h"
#include "base/simd.h"
#include "host/thresholds.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::move;

[[maybe_unused]] constexpr int64_t kReversedMin = 16;  // pieces: of fewer, working out their order is most of the work

}  // namespace

std::vector<MoveLoop> move_loops(const Dims& to, const Dims& from, const Dims& dims, int64_t size) {
  std::vector<MoveLoop> out;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    MoveLoop next{dims[d], to[d] * size, from[d] * size};
    if (!out.empty() && out.back().to == next.to * next.count && out.back().from == next.from * next.count) {
      next.count *= out.back().count;
      out.back() = next;
    } else {
      out.push_back(next);
    }
  }
  return out;
}

namespace {

// The loop is its own copy: bytes that are written could be those of any other.
template <class T>
void copy_units(std::byte* to, const std::byte* from, MoveLoop loop) {
  for (int64_t i = 0; i < loop.count; ++i) std::memcpy(to + i * loop.to, from + i * loop.from, sizeof(T));
}

bool is_flat(const MoveLoop& loop, size_t size) { return loop.to == int64_t(size) && loop.from == int64_t(size); }

// Bytes that a load and a store or two move.
bool is_unit(int64_t bytes) {
  constexpr int64_t kUnits[] = {2, 3, 4, 6, 8, 12, 16, 24, 32};
  return std::find(std::begin(kUnits), std::end(kUnits), bytes) != std::end(kUnits);
}

void copy_row(std::byte* to, const std::byte* from, const MoveLoop& loop, size_t size) {
  if (is_flat(loop, size)) {
    std::memcpy(to, from, size_t(loop.count) * size);
    return;
  }
#if defined(__x86_64__)
  const bool is_reversed = loop.to == int64_t(size) && loop.from == -loop.to && loop.to <= kReversedMax;
  if (is_reversed && loop.count >= kReversedMin && simd_best() == Simd::avx2)
    return reverse_pieces_avx2()(to, from, loop.count, loop.to);
#endif
  switch (size) {
    case 1:
      return copy_units<uint8_t>(to, from, loop);
    case 2:
      return copy_units<uint16_t>(to, from, loop);
    case 4:
      return copy_units<uint32_t>(to, from, loop);
    case 8:
      return copy_units<uint64_t>(to, from, loop);
    case 3:
      return copy_units<std::array<uint8_t, 3>>(to, from, loop);
    case 6:
      return copy_units<std::array<uint16_t, 3>>(to, from, loop);
    case 12:
      return copy_units<std::array<uint32_t, 3>>(to, from, loop);
    case 24:
      return copy_units<std::array<uint64_t, 3>>(to, from, loop);
    case 32:
      return copy_units<std::array<uint64_t, 4>>(to, from, loop);
    default:
      return copy_units<std::array<uint64_t, 2>>(to, from, loop);
  }
}

}  // namespace

void copy_loops(std::byte* to, const std::byte* from, std::span<const MoveLoop> loops, size_t size) {
  if (loops.empty()) {
    std::memcpy(to, from, size);
  } else if (loops.size() == 1) {
    copy_row(to, from, loops[0], size);
  } else if (loops.size() == 2 && is_flat(loops[1], size) && is_unit(loops[1].count * int64_t(size))) {
    copy_row(to, from, loops[0], size_t(loops[1].count) * size);
  } else {
    for (int64_t i = 0; i < loops[0].count; ++i)
      copy_loops(to + i * loops[0].to, from + i * loops[0].from, loops.subspan(1), size);
  }
}

void copy_flat(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes < tuned::kParallelBytes) {
    std::memcpy(to, from, size_t(bytes));
    return;
  }
  parallel_for(bytes, tuned::kParallelBytes / 4,
               [&](int64_t begin, int64_t end) { std::memcpy(to + begin, from + begin, size_t(end - begin)); });
}

namespace {

void copy_box(std::byte* to, const std::byte* from, std::span<const MoveLoop> loops, size_t size) {
  int64_t bytes = int64_t(size);
  for (const MoveLoop& l : loops) bytes *= l.count;
  if (loops.size() == 1 && is_flat(loops[0], size)) return copy_flat(to, from, bytes);
  if (bytes < tuned::kParallelBytes || loops.empty()) return copy_loops(to, from, loops, size);
  const int64_t each = std::max<int64_t>(1, bytes / loops[0].count);
  parallel_for(loops[0].count, std::max<int64_t>(1, tuned::kParallelBytes / 4 / each), [&](int64_t begin, int64_t end) {
    std::vector<MoveLoop> part(loops.begin(), loops.end());
    part[0].count = end - begin;
    copy_loops(to + begin * loops[0].to, from + begin * loops[0].from, part, size);
  });
}

int64_t read_int(Dtype dtype, const void* data) {
  if (dtype == Dtype::s32) return *static_cast<const int32_t*>(data);
  return dispatch_element(dtype, [&](auto element) -> int64_t {
    using E = decltype(element);
    if constexpr (E::kIsInteger) {
      return int64_t(E::load(*static_cast<const typename E::Storage*>(data)));
    } else {
      return 0;
    }
  });
}

void fill(std::byte* to, size_t all, const void* value, size_t size) {
  if (all == 0) return;
  std::memcpy(to, value, size);
  for (size_t done = size; done < all; done *= 2) std::memcpy(to + done, to, std::min(done, all - done));
}

}  // namespace

Move::Move(const arch::MoveStep& step, std::span<const arch::Slot* const> in, const arch::Slot& out)
    : kind_(step.kind), size_(size_t(bytes(out.dtype))), all_(out.bytes()), is_empty_(out.bytes() == 0) {
  const Dims to = row_major_strides(out.dims);
  const int64_t size = int64_t(size_);
  if (kind_ == arch::MoveKind::concatenate) {
    int64_t at = 0;
    for (const arch::Slot* part : in) {
      parts_.push_back(
          {at * to[size_t(step.dim)] * size, move_loops(to, row_major_strides(part->dims), part->dims, size)});
      if (part->bytes() == 0) parts_.back().loops = {{0, 0, 0}};
      parts_.back().flat = flat(parts_.back().loops, part->bytes());
      at += part->dims[size_t(step.dim)];
    }
    return;
  }
  const Dims from = row_major_strides(in[0]->dims);
  if (kind_ == arch::MoveKind::pad) {
    // Elements of x that stay inside the result are one box on either side.
    Dims box = in[0]->dims, wide = to;
    for (size_t d = 0; d < box.size(); ++d) {
      const int64_t by = step.gaps[d] + 1, low = step.low[d];
      const int64_t first = low < 0 ? (-low + by - 1) / by : 0;  // the first element at index 0 or later
      const int64_t room = out.dims[d] - 1 - low;
      const int64_t last = room < 0 ? -1 : std::min(in[0]->dims[d] - 1, room / by);
      box[d] = std::max<int64_t>(0, last - first + 1);
      from_at_ += first * from[d] * size;
      to_at_ += (low + first * by) * to[d] * size;
      wide[d] = to[d] * by;
    }
    loops_ = move_loops(wide, from, box, size);
    if (element_count(box) == 0) loops_ = {{0, 0, 0}};
    return;
  }
  const bool is_slice = kind_ == arch::MoveKind::slice;
  const arch::Slot& box = is_slice ? out : *in[1];
  const Dims &whole = in[0]->dims, box_strides = row_major_strides(box.dims);
  loops_ = is_slice ? move_loops(box_strides, from, box.dims, size) : move_loops(from, box_strides, box.dims, size);
  if (box.bytes() == 0) loops_ = {{0, 0, 0}};
  flat_ = flat(loops_, box.bytes());
  for (size_t d = 0; d < whole.size(); ++d) {
    const size_t at = d + (is_slice ? 1 : 2);
    if (whole[d] > box.dims[d]) starts_.push_back({in[at]->dtype, at, whole[d] - box.dims[d], from[d] * size});
  }
}

// Where the box begins, in bytes: each start moved so that the box lies inside.
int64_t Move::start(std::span<void* const> in) const {
  int64_t at = 0;
  for (const Start& s : starts_) at += std::clamp<int64_t>(read_int(s.dtype, in[s.input]), 0, s.most) * s.stride;
  return at;
}

int64_t Move::flat(std::span<const MoveLoop> loops, size_t bytes) const {
  const bool is_one_run = loops.empty() || (loops.size() == 1 && is_flat(loops[0], size_));
  return is_one_run && int64_t(bytes) < tuned::kParallelBytes ? int64_t(bytes) : -1;
}

void Move::box(std::byte* to, const std::byte* from, std::span<const MoveLoop> loops, int64_t flat) const {
  if (flat == 4) {
    std::memcpy(to, from, 4);
  } else if (flat == 2) {
    std::memcpy(to, from, 2);
  } else if (flat >= 0) {
    std::memcpy(to, from, size_t(flat));
  } else {
    copy_box(to, from, loops, size_);
  }
}

void Move::run(std::span<void* const> in, void* out) const {
  if (is_empty_) return;
  auto* to = static_cast<std::byte*>(out);
  const auto* from = static_cast<const std::byte*>(in[0]);
  switch (kind_) {
    case arch::MoveKind::slice:
      return box(to, from + start(in), loops_, flat_);
    case arch::MoveKind::update:
      if (to != from) copy_flat(to, from, int64_t(all_));
      return box(to + start(in), static_cast<const std::byte*>(in[1]), loops_, flat_);
    case arch::MoveKind::concatenate:
      for (size_t i = 0; i < parts_.size(); ++i)
        box(to + parts_[i].at, static_cast<const std::byte*>(in[i]), parts_[i].loops, parts_[i].flat);
      return;
    case arch::MoveKind::pad:
      fill(to, all_, in[1], size_);
      return copy_box(to + to_at_, from + from_at_, loops_, size_);
  }
}

std::optional<ShortMove> short_copy(const void* from, void* to, int64_t bytes) {
  static constexpr int32_t kFirst = 0;
  if (from == to || bytes > tuned::kShortBytes) return std::nullopt;
  return ShortMove{.index = &kFirst,
                   .to = static_cast<std::byte*>(to),
                   .from = static_cast<const std::byte*>(from),
                   .is_slice = true,
                   .bytes = bytes};
}

std::optional<ShortMove> Move::shortened(std::span<void* const> in, void* out) const {
  const bool is_slice = kind_ == arch::MoveKind::slice;
  if (is_empty_ || (!is_slice && (kind_ != arch::MoveKind::update || in[0] != out))) return std::nullopt;
  if (flat_ < 0 || flat_ > tuned::kShortBytes || starts_.size() != 1) return std::nullopt;
  const Start& start = starts_[0];
  if (start.most > INT32_MAX || (start.dtype != Dtype::s32 && start.dtype != Dtype::s64)) return std::nullopt;
  return ShortMove{.index = in[start.input],
                   .is_wide = start.dtype == Dtype::s64,
                   .most = int32_t(start.most),
                   .stride = start.stride,
                   .to = static_cast<std::byte*>(out),
                   .from = static_cast<const std::byte*>(in[is_slice ? 0 : 1]),
                   .is_slice = is_slice,
                   .bytes = flat_};
}

}  // namespace trine::host
