// Windows of a tensor at computed indices: gather, and scatter by set, add, multiply, maximum, minimum.
// Invariant: windows that overlap are combined in the order of their indices, whatever the number of threads.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "arch/plan/plan.h"
#include "host/move.h"

namespace trine::host {

class Windows {
 public:
  Windows(const arch::WindowStep& step, const arch::Slot& operand, const arch::Slot& indices,
          std::shared_ptr<const Windows> updates = {});
  // in: operand, indices, and of a scatter updates, or their gather's operand and indices; out may be the operand's
  // memory in a scatter.
  void run(std::span<void* const> in, void* out) const;
  // A scatter that sets one window of few bytes side by side in place; nothing where it is no such scatter.
  std::optional<ShortMove> shortened(std::span<void* const> in, void* out) const;

 private:
  using Combine = void (*)(std::byte* to, const std::byte* from, const MoveLoop& loop);

  // f(number, bytes of the window's first element in `many` and in the operand) for windows [begin, end) that are in
  // bounds.
  template <size_t kStarts, class Index, class F>
  void visit_by(const Index& index, int64_t begin, int64_t end, F&& f) const;
  template <class F>
  void visit(const void* indices, int64_t begin, int64_t end, F&& f) const;
  bool gathers_across() const;
  void gather_across(std::span<void* const> in, std::byte* out) const;
  void gather(std::span<void* const> in, std::byte* out) const;
  void scatter(std::span<void* const> in, std::byte* out) const;
  template <class S, class F>
  void scatter_elements(std::span<void* const> in, std::byte* out, F f) const;
  bool scatter_each(std::span<void* const> in, std::byte* out) const;
  bool scatter_rows(std::span<void* const> in, std::byte* out) const;
  void combine(std::byte* to, const std::byte* from, std::span<const MoveLoop> loops) const;

  arch::WindowStep step_;  // strides of `many` and of the operand in bytes
  Dtype dtype_, index_;
  size_t size_, bytes_;  // of an element, of the operand
  int64_t count_ = 1;    // windows
  int64_t window_bytes_ = 0;
  std::vector<MoveLoop> loops_;  // over a window, from `many` or to it; empty: one element
  Combine combine_ = nullptr;
  std::shared_ptr<const Windows> updates_;  // a scatter's
};

}  // namespace trine::host
