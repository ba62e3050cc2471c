// A virtual device's share of HBM, or of the host's memory: an account of who holds how much. Storage is one tensor's
// values in it; the bytes lie in this machine's memory, dense and row-major. Invariant: in_use is the sum over the
// living and never above the limit; an allocation past it is an error that lists the largest holders.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "host/gemm/packed.h"
#include "host/scratch.h"
#include "run/counters/publish.h"

namespace trine::run {

// Where a device's tensors may lie: its HBM, or the host's memory, which the virtual machine leaves uncounted.
enum class MemoryKind : uint8_t { device, pinned_host, unpinned_host, count };
std::string_view name(MemoryKind kind);  // "device", "pinned_host", as JAX has them

enum class MemoryClass : uint8_t { input, output, temporary, count };  // input: made from host memory or by a copy
std::string_view name(MemoryClass which);

struct MemoryStats {
  int64_t limit_bytes = 0, in_use_bytes = 0, peak_bytes = 0, largest_bytes = 0;
  int64_t allocations = 0;                                           // ever
  std::array<int64_t, size_t(MemoryClass::count)> class_bytes = {};  // in use
};

class Memory;

// The bytes themselves. Two storages share a block when a program writes its result over a donated input.
class Block {
 public:
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

 private:
  friend class Memory;
  friend class Storage;
  struct Key {};  // only Memory makes blocks

 public:
  explicit Block(Key) {}

 private:
  std::shared_ptr<Memory> memory_;
  host::Memory data_;
  size_t bytes_ = 0;
  Dtype dtype_ = Dtype::f32;
  Dims dims_;
  MemoryClass class_ = MemoryClass::input;
  std::shared_ptr<const std::string> owner_;  // a program's name, or null
  bool is_counted_ = false;
  Block *before_ = nullptr, *after_ = nullptr;  // among those that are counted
};

class Storage {
 public:
  explicit Storage(std::shared_ptr<Block> block)
      : block_(std::move(block)), packed_forms_(block_->data_.data(), block_->bytes_) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return block_->data_.data(); }  // values are there during a use of kept(), or pinned
  size_t bytes() const { return block_->bytes_; }
  host::PackedForms& packed_forms() { return packed_forms_; }                           // packed forms of these values
  std::shared_ptr<Storage> reuse() const { return std::make_shared<Storage>(block_); }  // for the next values

  // Uses that a later program on the same device does not wait for: another device's copy, a transfer to the host, a
  // pointer somebody was given. While there are any, a donated tensor's bytes are not written.
  void begin_foreign_use() {
    foreign_.fetch_add(1, std::memory_order_relaxed);
    packed_forms_.begin_use(false);
  }
  void end_foreign_use() {
    packed_forms_.end_use(true, false);
    foreign_.fetch_sub(1, std::memory_order_release);
  }
  bool has_foreign_use() const { return foreign_.load(std::memory_order_acquire) != 0; }

 private:
  const std::shared_ptr<Block> block_;
  host::PackedForms packed_forms_;
  std::atomic<int> foreign_ = 0;
};

struct Allocation {
  Dtype dtype = Dtype::f32;
  Dims dims = {};
  MemoryClass memory_class = MemoryClass::input;
  std::shared_ptr<const std::string> owner = {};
};

class Memory : public std::enable_shared_from_this<Memory> {
 public:
  static std::shared_ptr<Memory> make(std::string name, int64_t limit_bytes);

  Result<std::shared_ptr<Storage>> allocate(Allocation wanted);
  // Temporaries of a running program. Before it starts: would they fit?
  Result<void> check_room(int64_t bytes, std::string_view for_what) const;
  void begin_temporaries(int64_t bytes);
  void end_temporaries(int64_t bytes);

  MemoryStats stats() const;
  void reset_peak();
  void publish(std::shared_ptr<Page> page, size_t core);  // before the first allocation

 private:
  friend class Block;
  Memory(std::string name, int64_t limit_bytes);

  void add(MemoryClass which, int64_t bytes);  // with mutex_ held
  void release(Block& block);
  Error out_of_memory(std::string_view wanted, int64_t bytes) const;  // with mutex_ held

  const std::string name_;
  mutable std::mutex mutex_;
  MemoryStats stats_;
  Block* live_ = nullptr;  // the youngest; the others follow
  std::shared_ptr<Page> page_;
  CoreCounters* counters_ = nullptr;  // of page_
};

}  // namespace trine::run
