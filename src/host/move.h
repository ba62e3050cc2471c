// Boxes of elements copied between dense tensors: dynamic slices and updates, concatenation, padding.
#pragma once

#include <cstddef>
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
void copy_flat(std::byte* to, const std::byte* from, int64_t bytes);  // by several threads where it is long

// A step with its loops worked out, for runs that only have pointers. Small boxes cost a few dozen nanoseconds.
class Move {
 public:
  Move(const arch::MoveStep& step, std::span<const arch::Slot* const> in, const arch::Slot& out);
  void run(std::span<void* const> in, void* out) const;

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
