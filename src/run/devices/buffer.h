// A tensor on a virtual device, as a framework holds it: type, bytes, when they are ready, and whether it still exists.
// Immutable once ready. Deleting or donating drops this handle's share of the bytes; work in flight keeps its own.
#pragma once

#include <memory>
#include <mutex>

#include "run/devices/future.h"
#include "run/devices/memory.h"

namespace trine::run {

class Device;

class Buffer {
 public:
  Buffer(Device& device, Dtype dtype, Dims dims, std::shared_ptr<Storage> storage, Future ready,
         MemoryKind kind = MemoryKind::device)
      : device_(device),
        kind_(kind),
        dtype_(dtype),
        dims_(std::move(dims)),
        storage_(std::move(storage)),
        ready_(std::move(ready)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  Device& device() const { return device_; }
  MemoryKind kind() const { return kind_; }
  Dtype dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  size_t bytes() const { return size_t(element_count(dims_)) * size_t(trine::bytes(dtype_)); }
  const Future& ready() const { return ready_; }

  bool is_deleted() const;
  void remove();
  // The bytes, for as long as the caller keeps them; an error where the buffer is deleted or was donated.
  Result<std::shared_ptr<Storage>> use() const;
  Result<std::shared_ptr<Storage>> use_foreign() const;  // begins a foreign use, which the caller ends
  Result<std::shared_ptr<Storage>> donate();
  // A pointer given to somebody outside: the bytes stay until release_external().
  Result<std::byte*> hold_external();
  void release_external();

 private:
  Error gone() const;  // with mutex_ held

  Device& device_;
  const MemoryKind kind_;
  const Dtype dtype_;
  const Dims dims_;
  mutable std::mutex mutex_;
  std::shared_ptr<Storage> storage_;
  bool is_donated_ = false;
  std::shared_ptr<Storage> external_;
  int external_count_ = 0;
  const Future ready_;
};

}  // namespace trine::run
