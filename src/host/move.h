// Boxes of elements copied between dense tensors: dynamic slices and updates, concatenation, padding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "arch/plan/plan.h"

namespace trine::host {

// One dim of a copy, or several that lie evenly on both sides; strides in bytes.
struct MoveLoop {
  int64_t count = 0, to = 0, from = 0;
};

// The dims of a copy, merged where both sides go on evenly, outermost first. Strides in elements of `size` bytes.
std::vector<MoveLoop> move_loops(const Dims& to, const Dims& from, const Dims& dims, int64_t size);
void copy_loops(std::byte* to, const std::byte* from, std::span<const MoveLoop> loops, size_t size);
// `count` pieces of up to kReversedMax bytes, dense where they go to and before each other where they come from.
inline constexpr int64_t kReversedMax = 12;
using ReversePieces = void (*)(std::byte* to, const std::byte* from, int64_t count, int64_t piece);
ReversePieces reverse_pieces_avx2();                                  // only where simd_best() says avx2
void copy_flat(std::byte* to, const std::byte* from, int64_t bytes);  // by several threads where it is long

// A slice or update of few bytes side by side at one index, on memory that stays where it is.
struct ShortMove {
  const void* index = nullptr;  // an s32, or an s64
  bool is_wide = false;         // the latter
  bool drops = false;           // nothing moves where the index is outside; else it is held inside
  int32_t most = 0;
  int64_t stride = 0;  // bytes an index
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  bool is_slice = false;  // else what is moved to is at the index
  int64_t bytes = 0;

  void run() const {
    const int64_t given = is_wide ? *static_cast<const int64_t*>(index) : *static_cast<const int32_t*>(index);
    const int64_t held = std::clamp<int64_t>(given, 0, most), at = held * stride;
    if (drops && held != given) return;
    std::byte* t = is_slice ? to : to + at;
    const std::byte* f = is_slice ? from + at : from;
    int64_t left = bytes;
    for (; left >= 32; left -= 32, t += 32, f += 32) std::memcpy(t, f, 32);
    if (left & 16) std::memcpy(t, f, 16), t += 16, f += 16;
    if (left & 8) std::memcpy(t, f, 8), t += 8, f += 8;
    if (left & 4) std::memcpy(t, f, 4), t += 4, f += 4;
    if (left & 2) std::memcpy(t, f, 2), t += 2, f += 2;
    if (left & 1) *t = *f;
  }
};

// A copy of few bytes; nothing where they are many, or where there is nothing to move.
std::optional<ShortMove> short_copy(const void* from, void* to, int64_t bytes);

// A step with its loops worked out, for runs that only have pointers. Small boxes cost a few dozen nanoseconds.
class Move {
 public:
  Move(const arch::MoveStep& step, std::span<const arch::Slot* const> in, const arch::Slot& out);
  void run(std::span<void* const> in, void* out) const;
  // Nothing where it is no such move.
  std::optional<ShortMove> shortened(std::span<void* const> in, void* out) const;

 private:
  struct Start {
    Dtype dtype = Dtype::s32;
    size_t input = 0;
    int64_t most = 0, stride = 0;  // of the box's place; stride in bytes
  };
  struct Part {
    int64_t at = 0;  // bytes
    std::vector<MoveLoop> loops = {};
    int64_t flat = -1;  // as flat_
  };
  void box(std::byte* to, const std::byte* from, std::span<const MoveLoop> loops, int64_t flat) const;
  int64_t flat(std::span<const MoveLoop> loops, size_t bytes) const;
  int64_t start(std::span<void* const> in) const;

  arch::MoveKind kind_;
  size_t size_ = 0, all_ = 0;        // bytes of an element, and of the whole result
  std::vector<Start> starts_;        // of dims in which the box can move
  std::vector<MoveLoop> loops_;      // of the box
  std::vector<Part> parts_;          // concatenate
  int64_t to_at_ = 0, from_at_ = 0;  // pad: bytes
  bool is_empty_ = false;
  int64_t flat_ = -1;  // bytes of the box where they lie side by side on both sides and are few
};

}  // namespace trine::host
