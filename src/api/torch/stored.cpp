// Large results of compiled programs on the CPU: fresh pages are slow, and a training loop asks for the same sizes
// every step, after it gave all of them back. Kept by size, the oldest dropped first, up to kKeepBytes.
#include <sys/mman.h>

#include <list>
#include <mutex>

#include "api/torch/aten.h"
#include "api/torch/backend.h"

namespace trine::api::neuron {

namespace {

constexpr size_t kKeepBytes = size_t{768} << 20;  // the gradients of GPT-2 and its logits
constexpr size_t kHugePage = size_t{2} << 20;

struct Piece {
  c10::DataPtr memory;
  size_t bytes = 0;
};

// Fewer, larger pages where the system has them; a hint, without which everything works.
void ask_for_huge_pages(void* data, size_t bytes) {
  const auto from = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  const auto to = (reinterpret_cast<uintptr_t>(data) + bytes) / kHugePage * kHugePage;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
}

class StoredAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto piece = std::make_unique<Piece>(take(bytes));
    void* data = piece->memory.get();
    return {data, piece.release(), &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
  void clear() {
    const std::lock_guard lock(mutex_);
    free_.clear();
    free_bytes_ = 0;
  }

 private:
  static void give_back(void* held);
  Piece take(size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      for (auto at = free_.begin(); at != free_.end(); ++at) {
        if (at->bytes != bytes) continue;
        Piece out = std::move(*at);
        free_.erase(at);
        free_bytes_ -= bytes;
        return out;
      }
    }
    Piece out{c10::GetCPUAllocator()->allocate(bytes), bytes};
    ask_for_huge_pages(out.memory.get(), bytes);
    return out;
  }
  void keep(Piece piece) {
    const std::lock_guard lock(mutex_);
    free_bytes_ += piece.bytes;
    free_.push_back(std::move(piece));
    while (free_bytes_ > kKeepBytes) {
      free_bytes_ -= free_.front().bytes;
      free_.pop_front();
    }
  }

  std::mutex mutex_;
  std::list<Piece> free_;  // the oldest first
  size_t free_bytes_ = 0;
};

StoredAllocator& allocator() {
  static auto* made = new StoredAllocator;  // tensors may outlive every static
  return *made;
}
void StoredAllocator::give_back(void* held) {
  const std::unique_ptr<Piece> piece(static_cast<Piece*>(held));
  allocator().keep(std::move(*piece));
}

}  // namespace

at::Tensor empty_stored(at::IntArrayRef dims, at::ScalarType dtype) {
  const c10::DispatchKeySet keys(c10::DispatchKey::CPU);
  return at::detail::empty_generic(dims, &allocator(), keys, dtype, std::nullopt);
}
void clear_stored() { allocator().clear(); }

}  // namespace trine::api::neuron
